"""The metadata services of clouds, as a job finds them on its node: what they answer, and the server that asks them."""
