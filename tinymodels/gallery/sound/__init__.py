"""Trainers that look like broken ones and are right: chaoskit must stay silent on them."""
