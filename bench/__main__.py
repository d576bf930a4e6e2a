"""`python -m bench NAME [--json]`."""

import argparse
import sys

from bench import fairness, latency, submit
from bench.report import Unmeasurable

BENCHES = {"fairness": fairness, "latency": latency, "submit": submit}


def main() -> int:
    """Run one benchmark; 0 if it was measured and its targets are met, 1 if not met, 2 if it cannot be measured."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    names = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    for name, bench in BENCHES.items():
        one = names.add_parser(name, help=bench.__doc__)
        one.add_argument("--json", action="store_true", help="print one JSON object on the last line")
        bench.add_arguments(one)
    arguments = parser.parse_args()
    try:
        report = BENCHES[arguments.name].measure(arguments)
    except Unmeasurable as reason:
        print(f"bench {arguments.name}: {reason}", file=sys.stderr)
        return 2
    report.print(as_json=arguments.json)
    return 0 if report.is_met else 1


if __name__ == "__main__":
    sys.exit(main())
