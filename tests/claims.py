"""What is claimed of every run: whatever was done to it, the job ends as if nothing had been."""

from chaoskit import checks

CLAIMS = (
    checks.completed(),
    checks.resumed_from_last_valid(),
    checks.state_restored(),
    checks.same_data(),
    checks.checkpoints_faithful(),
    checks.matches_reference(),
    checks.stays_finite(),
    checks.no_orphans(),
)
