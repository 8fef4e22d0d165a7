"""Requests about users and policies, and the access keys that clients use.

Behaviour
- Most brokers have no users. Then the key of a request is only noted, and the code that checks requests isn't loaded.
- Users and policies are in access.json, so they are in snapshots and survive restarts. A reset of the broker keeps
  them, because the program that resets it must still be able to connect. A slave has those of its master.
- Codes 50 to 54 read and write RocketMQ 4's plain_acl.yml, if the broker has one.
- A change applies from the next request on. Refused one-way requests get no response, as any one-way request.

Not done
- The stateful strategies of RocketMQ, which remember a verdict for 60 s: `authenticationStrategy` has no effect.
"""

from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from staticfire.broker.access.peers import AccessPeers
from staticfire.broker.changes import Changes
from staticfire.broker.settings import BrokerSettings
from staticfire.broker.state import BrokerState
from staticfire.protocol.codes import RequestCode
from staticfire.protocol.command import Answer
from staticfire.protocol.requests.access import AccessAnswer, AccessState, JudgeAnswer
from staticfire.runtime.connection import Connection
from staticfire.runtime.dispatcher import Call, Dispatcher
from staticfire.runtime.service import Pause

if TYPE_CHECKING:
    from staticfire.broker.access.control import AccessControl

FILE = "access.json"


class AccessHandlers:
    """Handles requests about access."""

    def __init__(
        self,
        state: BrokerState,
        changes: Changes,
        dispatcher: Dispatcher,
        connections: Callable[[], Iterable[Connection]],
        peers: AccessPeers,
    ) -> None:
        """`dispatcher`, `connections`: those of the ports, which are kept when the broker's core is replaced."""
        self._state = state
        self._changes = changes
        self._dispatcher = dispatcher
        self._connections = connections
        self._peers = peers
        self._opened: AccessControl | None = None
        self._is_filed = False
        state.on_settings(self._use)

    def register(self, dispatcher: Dispatcher) -> None:
        """Register the handlers."""
        dispatcher.handle(RequestCode.SIGN_IN, self.sign_in)
        dispatcher.handle(RequestCode.JUDGE_CALL, self.judge_call)
        dispatcher.handle(RequestCode.GET_ACCESS, self.get_access)
        for code, method in {
            RequestCode.AUTH_CREATE_USER: "create_user",
            RequestCode.AUTH_UPDATE_USER: "update_user",
            RequestCode.AUTH_DELETE_USER: "delete_user",
            RequestCode.AUTH_GET_USER: "get_user",
            RequestCode.AUTH_LIST_USER: "list_users",
            RequestCode.AUTH_CREATE_ACL: "put_acl",
            RequestCode.AUTH_UPDATE_ACL: "put_acl",
            RequestCode.AUTH_DELETE_ACL: "delete_acl",
            RequestCode.AUTH_GET_ACL: "get_acl",
            RequestCode.AUTH_LIST_ACL: "list_acls",
        }.items():
            dispatcher.handle(code, self._changing(method) if method[:3] in CHANGES else partial(self._answer, method))
        # RocketMQ 5.3.3 doesn't have these requests. Without the file, they get the response to an unknown request.
        for code, method in PLAIN_METHODS.items() if self.has_file else ():
            dispatcher.handle(code, partial(self._answer_plain, method))

    def restore(self) -> None:
        """Read the saved users, and judge if settings or users require it. Raises: StorageError, UsageError."""
        self._dispatcher.routes.watch = self._peers
        settings = self._state.settings
        path = f"{settings.store_path_root_dir}/config/{FILE}"
        if self._state.machine.files.exists(path) or is_wanted(settings):
            self._control.begin()
        else:
            # The users of the core before this one aren't in the snapshot that was restored.
            self._peers.judge_with(None)
            self._peers.notify_endpoints()

    def disconnected(self, connection: Connection) -> None:
        """Forget a closed connection."""
        self._peers.disconnected(connection)

    async def watch_loop(self, pause: Pause) -> None:
        """Loop: read the file of RocketMQ 4's access control again when it has changed."""
        while True:
            await pause(WATCH_MS)
            self._control.read_file_again()

    @property
    def has_file(self) -> bool:
        """Whether there is such a file."""
        return bool(self._state.settings.plain_acl_file)

    def users_for(self, version: str) -> tuple[str, str]:
        """Return users and policies for a slave, and their version. Both are empty if neither ever had any."""
        if self._opened is not None and self._is_filed:
            return self._opened.book.copy_for(version)
        if not version:
            return "", ""
        # The slave has users: those from before an earlier snapshot was restored here.
        from staticfire.broker.access.book import AccessBook  # imported here: most brokers have no users

        return AccessBook().copy_for(version)

    @property
    def changes(self) -> int:
        """A number that increases with each change of users and policies."""
        return 0 if self._opened is None else self._opened.book.version

    def take_users(self, data: bytes) -> None:
        """Take over users and policies of the master. Raises: msgspec.MsgspecError, ValueError (they are invalid)."""
        self._control.book.take_copy(data)

    # -- requests ------------------------------------------------------------------------------------------------

    def sign_in(self, call: Call) -> Answer:
        """Note the key for all requests on this connection that aren't signed themselves."""
        call.connection.signed_in = call.request
        self._peers.note(call.connection, call.request.access_key)
        return Answer()

    def judge_call(self, call: Call) -> Answer:
        """Decide about the call of a gRPC client."""
        self._peers.endpoints[call.connection] = None
        return JudgeAnswer() if self._opened is None else self._opened.gate.judge_call(call)

    def get_access(self, call: Call) -> Answer:
        """Return what was refused lately, and who uses which key."""
        if self._opened is None:
            return AccessAnswer(body=AccessState(keys=self._peers.in_use(lambda _: None)))
        return self._opened.state(call.request.group)

    def _answer(self, method: str, call: Call) -> Answer:
        answer: Answer = getattr(self._control.administration, method)(call.request)
        return answer

    def _answer_plain(self, method: str, call: Call) -> Answer:
        answer: Answer = getattr(self._control.plain_administration, method)(call.request)
        return answer

    def _changing(self, method: str) -> Callable[[Call], Coroutine[Any, Any, Answer]]:
        """Return a handler that responds when the change is on the disk, and at enough slaves."""

        async def change(call: Call) -> Answer:
            self._changes.require_allowed()
            answer = self._answer(method, call)
            if self._is_filed:
                await self._changes.settled(FILE)
            return answer

        return change

    # -- access control ---------------------------------------------------------------------------------------------

    @property
    def _control(self) -> "AccessControl":
        """Users and policies, and the check of each request. Created when the first request or setting needs it."""
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def _open(self) -> "AccessControl":
        # Imported here, since most brokers have no users.
        from staticfire.broker.access.control import AccessControl, AccessSite

        state = self._state
        site = AccessSite(
            clock=state.machine.clock,
            files=state.machine.files,
            settings=lambda: state.settings,
            connections=self._connections,
            save=self._save,
        )
        control = AccessControl(site, self._peers)
        if state.machine.files.exists(f"{state.settings.store_path_root_dir}/config/{FILE}"):
            self._file(control)
        return control

    def _file(self, control: "AccessControl") -> None:
        self._is_filed = True
        self._changes.files.restore(FILE, control.book.snapshot, control.book.restore, is_private=True)

    def _save(self) -> None:
        assert self._opened is not None
        if not self._is_filed:
            self._file(self._opened)
        self._changes.files.changed(FILE)

    def _use(self, settings: BrokerSettings) -> None:
        """Apply changed settings."""
        if self._opened is not None:
            self._opened.apply()
        elif is_wanted(settings):
            self._control.begin()


WATCH_MS = 500
"""How often RocketMQ looks at files for changes."""
PLAIN_METHODS = {
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: "update",
    RequestCode.DELETE_ACL_CONFIG: "delete",
    RequestCode.GET_BROKER_CLUSTER_ACL_INFO: "version",
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: "update_white_addresses",
    RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG: "config",
}
CHANGES = ("cre", "upd", "del", "put")


def is_wanted(settings: BrokerSettings) -> bool:
    """Return whether settings require that access is judged, or name users."""
    return bool(
        settings.authentication_enabled
        or settings.authorization_enabled
        or settings.init_authentication_user
        or settings.acl_enable
        or settings.plain_acl_file
    )
