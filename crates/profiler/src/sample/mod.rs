//! Which thread is sampled when, and how: the tick, the rotation, the signal, the budget.
