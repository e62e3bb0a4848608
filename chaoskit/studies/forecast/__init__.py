"""Forecasts of a large job: what failures cost it, from what was measured on a small one and what is assumed."""
