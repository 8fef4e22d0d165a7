"""What pyproject.toml can't declare: a build without compiled parts, a README for package indexes, reproducible builds.

- STATICFIRE_PURE_PYTHON=1 builds a py3-none-any wheel, without compiled parts.
- STATICFIRE_REQUIRE_COMPILED=1 ends a build that can't compile them. By default such a build continues without them.
- README.md has links that are relative to the repository. A package index needs absolute ones.
- With SOURCE_DATE_EPOCH two builds of a commit have the same bytes. setuptools does so for wheels, but not for sdists.
"""

import gzip
import os
import re
import tarfile
import tomllib
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.sdist import sdist

ROOT = Path(__file__).parent
PURE = bool(os.environ.get("STATICFIRE_PURE_PYTHON"))
REQUIRE_COMPILED = bool(os.environ.get("STATICFIRE_REQUIRE_COMPILED"))
REPOSITORY = "https://github.com/staticfire/staticfire"
RAW_FILES = "https://raw.githubusercontent.com/staticfire/staticfire"
RELATIVE = r"(?![a-z]+:|#)"
PICTURE = re.compile(rf"(!\[[^\]]*\]\(){RELATIVE}([^)\s]+)\)")
LINK = re.compile(rf"(\]\(){RELATIVE}([^)\s]+)\)")
SOURCE = re.compile(rf'(\b(?:src|srcset)="){RELATIVE}([^"]+)"')
HREF = re.compile(rf'(\bhref="){RELATIVE}([^"]+)"')
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def absolute_links(text: str, version: str) -> str:
    """Return a text with links to the files of the version's tag; those of a development version lead to main."""
    tag = "main" if "dev" in version else f"v{version}"
    raw, files = rf"\g<1>{RAW_FILES}/{tag}/\2", rf"\g<1>{REPOSITORY}/blob/{tag}/\2"

    def rewritten(prose: str) -> str:
        # Pictures first: the link around a picture contains brackets.
        for pattern, address in ((PICTURE, f"{raw})"), (SOURCE, f'{raw}"'), (LINK, f"{files})"), (HREF, f'{files}"')):
            prose = pattern.sub(address, prose)
        return prose

    blocks = FENCED.findall(text)
    proses = map(rewritten, FENCED.split(text))
    return next(proses) + "".join(block + prose for block, prose in zip(blocks, proses, strict=True))


class StaticfireDistribution(Distribution):
    """A distribution whose compiled parts can be left out, or be required."""

    def has_ext_modules(self) -> bool:
        """Return whether the wheel is for one platform."""
        if PURE:
            return False
        for extension in self.ext_modules or []:
            extension.optional = extension.optional and not REQUIRE_COMPILED
        return super().has_ext_modules()


class ReproducibleSdist(sdist):
    """An sdist without what differs between two builds: times, users, permissions, the order of files in a folder."""

    def make_archive(
        self, base_name: str, format: str, root_dir: str | None = None, base_dir: str | None = None, **owner: str | None
    ) -> str:
        date = os.environ.get("SOURCE_DATE_EPOCH")
        if date is None or format != "gztar":
            return super().make_archive(base_name, format, root_dir, base_dir, **owner)

        def neutral(member: tarfile.TarInfo) -> tarfile.TarInfo:
            member.mtime, member.uid, member.gid, member.uname, member.gname = int(date), 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            return member

        folder = Path(root_dir or ".", base_dir or ".")
        path = Path(f"{base_name}.tar.gz")
        path.parent.mkdir(parents=True, exist_ok=True)
        with (
            path.open("wb") as file,
            gzip.GzipFile("", "wb", mtime=int(date), fileobj=file) as packed,
            tarfile.open(mode="w", fileobj=packed, format=tarfile.PAX_FORMAT) as archive,
        ):
            for one in sorted(folder.rglob("*")):
                if one.is_file():
                    archive.add(one, Path(base_dir or ".", one.relative_to(folder)).as_posix(), filter=neutral)
        return str(path)


if __name__ == "__main__":
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    setup(
        distclass=StaticfireDistribution,
        cmdclass={"sdist": ReproducibleSdist},
        long_description=absolute_links((ROOT / "README.md").read_text(encoding="utf-8"), version),
        long_description_content_type="text/markdown",
    )
