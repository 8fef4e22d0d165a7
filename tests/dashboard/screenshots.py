"""`python -m tests.dashboard.screenshots`: writes the pictures of docs/dashboard.md and README (`make screenshots`)."""

import random
import tempfile
from pathlib import Path

from staticfire import Cluster, Message, Producer, by_hash
from tests.dashboard.browser import Browser
from tests.dashboard.members import HELD, filled

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"
SIZE = (1200, 760)
BACKLOG = 700
PICTURES = {
    "dashboard-group": ("/groups/billing", "light", "document.querySelectorAll('.tile .fill').length > 5"),
    "dashboard-message": ("/messages/order-12", "light", "document.querySelectorAll('.timeline li').length > 5"),
    "dashboard-overview": ("/", "dark", "document.querySelector('#chart canvas')"),
    "dashboard-letters": ("/dlq/billing", "light", "document.querySelectorAll('tbody tr').length > 4"),
}
"""By name: address, theme, and what must be there."""


def main() -> None:
    """Write all pictures."""
    with Cluster(brokers=2) as cluster, filled(cluster), tempfile.TemporaryDirectory() as folder:
        chance = random.Random(7)
        with Producer("shop", cluster.namesrv) as producer:
            for number in range(BACKLOG):
                place = str(int(chance.expovariate(0.4)))
                producer.send(Message("orders", HELD, keys=[f"held-{number}"]), selector=by_hash, key=place)
        with Browser(Path(folder)) as browser:
            for name, (path, theme, there) in PICTURES.items():
                browser.resize(*SIZE, theme=theme)
                browser.open(f"{cluster.control}/ui{path}")
                browser.wait(there)
                browser.wait("new Promise((done) => setTimeout(() => done(true), 900))")  # What moves has arrived.
                (DOCS / f"{name}.png").write_bytes(browser.picture())
                print(f"screenshots: docs/{name}.png", flush=True)


if __name__ == "__main__":
    main()
