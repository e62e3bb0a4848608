"""notice-imdsv1: the metadata service is asked without a token.

Wrong: the snippet is from the days of version 1. Where only version 2 answers, as on every new machine, each request is
    refused, and an error is taken for "no notice": the node is taken away without a word.
Evidence: aws/aws-node-termination-handler#668 c, flashinfer-ai/flashinfer#2403 m
Codes: notice-ignored
Caught by: test_preempted[aws]
Args: --notice aws --step-delay 0.2
Options: --notices aws
Family: preemption
"""

from tinymodels.preemption.notices import Aws
from tinymodels.train import main


def without_token(self):
    self.token = ""
    return self.ask()


Aws.until = without_token

if __name__ == "__main__":
    raise SystemExit(main())
