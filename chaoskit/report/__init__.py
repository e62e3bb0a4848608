"""A run for people and for machines. Everything here draws what was judged elsewhere; nothing here judges."""
