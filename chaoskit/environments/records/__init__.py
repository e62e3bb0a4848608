"""The records of the ranks: how they come to the run's directory, and which ranks they tell of."""
