"""The one room where secrets meet noise: generators, draws, and the way from table to release."""
