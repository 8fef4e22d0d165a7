"""Administration of topics over HTTP.

Behaviour
- POST /topics `{"topic": "orders", "queues": 4}` creates a topic on all brokers. The same request again succeeds; other
  values for a topic that exists are refused (409). PATCH /topics/orders changes the given values and keeps the others.
- DELETE /topics/orders deletes it with its messages and the groups' offsets in it.
- 400 for invalid values, 404 for an unknown topic.
"""

from collections.abc import Awaitable
from typing import Annotated, Any, Literal

import msgspec

from staticfire.client.admin.creating_topics import TopicWish, change_topic, create_topic, delete_topic
from staticfire.control.routes import ControlCall, Reply, Route, read_body
from staticfire.protocol.codes import ResponseCode, name_of_response
from staticfire.protocol.errors import BrokerAnswer

QUEUES_MAX = 1_024
# Each broker has that many. Above it: `staticfire mqadmin updateTopic`.
FORMS = 'write {"topic": "orders", "queues": 4}'
CHANGE_FORMS = 'write {"queues": 8} or {"perm": 4}'
# A broker refuses values with these codes.
REFUSED = (ResponseCode.SYSTEM_ERROR, ResponseCode.INVALID_PARAMETER)

Queues = Annotated[int, msgspec.Meta(ge=1, le=QUEUES_MAX, description="for each broker")]
Perm = Annotated[Literal[2, 4, 6], msgspec.Meta(description="6: read and write, 4: read only, 2: write only")]


class TopicChange(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """The body of a PATCH."""

    queues: Queues | None = None
    write_queues: Queues | None = None
    perm: Perm | None = None
    order: bool | None = None
    attributes: dict[str, str] = {}

    def wish(self) -> TopicWish:
        """Return the values."""
        return TopicWish(self.queues, self.write_queues, self.perm, self.order, self.attributes)


class NewTopic(TopicChange, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The body of a POST."""

    topic: str


async def create(call: ControlCall) -> Reply:
    """Create a topic."""
    wanted: NewTopic = read_body(call.body, NewTopic, FORMS)
    async with call.cluster.admin() as admin:
        return await checked(create_topic(admin, wanted.topic, wanted.wish()))


async def change(call: ControlCall) -> Reply:
    """Change a topic."""
    wanted: TopicChange = read_body(call.body, TopicChange, CHANGE_FORMS)
    async with call.cluster.admin() as admin:
        return await checked(change_topic(admin, call.place["topic"], wanted.wish()))


async def delete(call: ControlCall) -> Reply:
    """Delete a topic."""
    topic = call.place["topic"]
    async with call.cluster.admin() as admin:
        await delete_topic(admin, topic)
        return Reply({"deleted": topic})


async def checked(result: Awaitable[dict[str, Any]]) -> Reply:
    """Return the response for a change: 400 if a broker refuses its values."""
    try:
        return Reply(await result)
    except BrokerAnswer as error:
        if error.code not in REFUSED:
            raise
        return Reply({"error": error.remark, "code": name_of_response(error.code)}, 400)


ROUTES = (
    Route(
        "POST", "/topics", f"create a topic: {FORMS.removeprefix('write ')}", create, body=NewTopic,
        refusals={409: "the topic exists with other values"},
    ),
    Route(
        "PATCH", "/topics/{topic}", f"change a topic, and keep its other values: {CHANGE_FORMS.removeprefix('write ')}",
        change, body=TopicChange, refusals={404: "there is no such topic"},
    ),
    Route(
        "DELETE", "/topics/{topic}", "delete a topic with its messages", delete,
        refusals={404: "there is no such topic"},
    ),
)  # fmt: skip
