"""A hook of mkdocs: on the site, links from docs/ to files outside of it (tests, examples) lead to the repository."""

import re
from typing import Any

OUTWARD = re.compile(r"\[([^\]]+)\]\((?:\.\./)+([^)#]*)[^)]*\)")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Return a page's text with such links replaced. Links within docs/ are kept."""
    depth = page.file.src_uri.count("/")

    def shown(found: re.Match[str]) -> str:
        ups = found[0].count("../")
        return found[0] if ups <= depth else f"[{found[1]}]({_address(config['repo_url'], found[2])})"

    return OUTWARD.sub(shown, markdown)


def _address(repository: str, path: str) -> str:
    """Return where a file or folder of the repository can be read."""
    kind = "blob" if "." in path.rsplit("/", 1)[-1] else "tree"
    return f"{repository}/{kind}/main/{path}"
