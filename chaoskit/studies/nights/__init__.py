"""Suites: the stored results of whole sessions, their comparison, and their history over many nights."""
