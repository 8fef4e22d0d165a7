"""What has to work wherever staticfire is installed, tried in a folder that isn't the checkout."""

import os
import re
import shutil
from pathlib import Path

from tools.release.running import CheckFailed, clean_environment, run

SEEDS = 2


def try_out(programs: Path, examples: Path, folder: Path) -> None:
    """Run a command beside a cluster, tests with the fixture, and a simulation. Raises: CheckFailed."""
    environment = environment_of(programs)
    run([programs / "staticfire", "run", "--", "true"], folder, environment)
    tests = Path(shutil.copy(examples / "testing" / "test_orders.py", folder))
    said = run([programs / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", tests], folder, environment)
    if not re.search(r"^\d+ passed", said, re.MULTILINE) or "failed" in said:
        raise CheckFailed(f"the tests with the fixture: {said}")
    workload = examples / "simulations" / "shop.py"
    command = ["simulate", "--seeds", str(SEEDS), "--hours", "0.02", str(workload)]
    run([programs / "staticfire", *command], folder, environment)


def try_spark(programs: Path, folder: Path) -> None:
    """Let spark-submit run a program that reads a topic. Raises: CheckFailed."""
    program = Path(shutil.copy(Path(__file__).with_name("spark_program.py"), folder))
    environment = environment_of(programs)
    environment |= {
        "PYSPARK_PYTHON": str(programs / "python"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    said = run([programs / "spark-submit", "--master", "local[1]", program], folder, environment)
    if "rows: 3" not in said:
        raise CheckFailed(f"spark-submit: the program must print `rows: 3`, and printed: {said[-2000:]}")


def environment_of(programs: Path) -> dict[str, str]:
    """Return the environment variables of an activated virtual environment."""
    return clean_environment(PATH=f"{programs}{os.pathsep}{os.environ['PATH']}", VIRTUAL_ENV=str(programs.parent))
