"""Learning on features: what the classifier and random features are worth."""
