"""The daemon beside a trainer on a spot machine: asks AWS for the notice, and leaves a file when it comes.

python watch_spot.py FLAG SECONDS

AWS asks jobs to poll spot/instance-action every 5 seconds, with a token (IMDSv2):
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
"""

import sys
import time
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

BASE = "http://169.254.169.254/latest"
ask = build_opener(ProxyHandler({})).open


def noticed():
    lifetime = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    with ask(Request(f"{BASE}/api/token", method="PUT", headers=lifetime), timeout=2) as answer:
        token = answer.read().decode()
    action = Request(f"{BASE}/meta-data/spot/instance-action", headers={"X-aws-ec2-metadata-token": token})
    try:
        with ask(action, timeout=2):
            return True
    except HTTPError as error:
        if error.code != 404:  # 404: no notice
            raise
        return False


def main(flag, seconds):
    while True:
        try:
            if noticed():
                Path(flag).touch()
        except (HTTPError, URLError, OSError) as error:
            print(f"watch_spot: {error}", file=sys.stderr, flush=True)
        time.sleep(float(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
