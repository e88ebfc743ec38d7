"""The rules by which released numbers decide the next round: docs/theory/adaptive.md."""

#: Shares of the squared ratio mu^2: of the first round, of each middle one, of the histogram
#: of lengths before each of these, and of the number of rows where nothing else says it.
FIRST, MIDDLE, TRIAL, NUMBER = 0.08, 0.1, 0.02, 0.01

#: Share of the histogram before the last round, which has what is left. Less will do where that
#: round's noise is above the sampling error and so above what clipping does.
COUNTS, COUNTS_IF_NOISY = 0.1, 0.05

#: A frame is worth the budget of looking into it if it lowers the noise by this factor, and raises
#: that of no kind of columns. For a middle round, while noise hides some direction, less will
#: do: the next frame gains more. The last round, for which all else is spent, need only not lose.
WORTH, WORTH_IF_HIDDEN, WORTH_LAST = 1.6, 1.0, 1.0

#: The squared radius that a frame is thought to need before lengths in it were counted, over the
#: mean square of a row.
LONG = 4.0

#: A middle round teaches nothing if the eigenvalues of its noise may be above this part of
#: what the frame before makes of a direction.
TAUGHT = 0.5

#: Middle rounds are taken while the least second moment is below so many times the floor
#: of its noise: the first one, and the second.
CLEAR_ENOUGH = 8.0, 1.0

#: Radius of the middle round, squared, in units of a row's mean square in its frame. Its
#: clipping moves the next frame a little and no estimate.
REACH = 4.0

#: The radius of the last round is where so many rows are longer for each unit of noise that an
#: entry would have at a radius of 1, or so many deviations of their number's noise, if these are
#: more.
BEYOND, SEEN = 20.0, 2.0

#: Bins of squared lengths for a factor of 2, in which the noise of a round is in proportion.
PER_OCTAVE = 8

#: What clipping may move an entry by is taken for so many times its noise. Both are chosen on
#: the tables that docs/benchmarks/accuracy.md is measured on.
ALLOWED = 1.5

#: The residual of a target is made longer until its square is this part of all of |z|^2, or left
#: as it is: its own tail then reaches as far as that of all other directions together.
RESIDUAL = 1 / 6
