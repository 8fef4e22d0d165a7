"""RocketMQ's jars, and programs of this folder compiled against them. Needs a JDK and Maven."""

import subprocess
from pathlib import Path

HERE = Path(__file__).parent
ORACLE = HERE.parents[1] / "tools" / "oracle.sh"


def java_command(program: str, folder: str, source: Path = HERE) -> list[str]:
    """Compile one of the programs, of this folder or of `source`, into a folder; return the command that runs it.

    Raises: CalledProcessError.
    """
    found = subprocess.run(["bash", str(ORACLE), "classpath"], check=True, capture_output=True, text=True)
    library = found.stdout.strip()
    subprocess.run(["javac", "-nowarn", "-cp", library, "-d", folder, str(source / f"{program}.java")], check=True)
    return ["java", "-XX:TieredStopAtLevel=1", f"-Duser.home={folder}", "-cp", f"{folder}:{library}", program]
