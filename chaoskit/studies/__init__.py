"""Questions that one run cannot answer: crash states, silent corruption, upgrades, many nights."""
