"""What the cases send."""

from typing import Any

from staticfire.proxy.proto import rocketmq_v2_pb2 as pb

DAY_S = 86_400


def resource(name: str) -> pb.Resource:
    """Return a topic or a group as requests have it."""
    return pb.Resource(name=name)


def endpoints(host: str = "127.0.0.1", port: int = 8081, scheme: Any = pb.IPv4) -> pb.Endpoints:
    """Return where a client has connected to."""
    return pb.Endpoints(scheme=scheme, addresses=[pb.Address(host=host, port=port)])


def message(topic: str, message_id: str = "ID", body: bytes = b"paid", **system: Any) -> pb.Message:
    """Return a message; `user` are its own properties."""
    user = system.pop("user", {})
    fields: dict[str, Any] = {"message_id": message_id, "message_type": pb.NORMAL} | system
    return pb.Message(
        topic=resource(topic), body=body, user_properties=user, system_properties=pb.SystemProperties(**fields)
    )


def send(*messages: pb.Message) -> pb.SendMessageRequest:
    """Return a send."""
    return pb.SendMessageRequest(messages=messages)


def receive(topic: str, group: str, **more: Any) -> pb.ReceiveMessageRequest:
    """Return a receive of up to 32 for 30 s; `poll_s`, `invisible_s` and `tags` or `sql` say otherwise."""
    poll_s, invisible_s = more.pop("poll_s", 5), more.pop("invisible_s", 30)
    kind, text = (pb.SQL, more.pop("sql")) if "sql" in more else (pb.TAG, more.pop("tags", "*"))
    fields: dict[str, Any] = {"batch_size": 32} | more
    request = pb.ReceiveMessageRequest(
        group=resource(group), message_queue=pb.MessageQueue(topic=resource(topic)),
        filter_expression=pb.FilterExpression(type=kind, expression=text), **fields,
    )  # fmt: skip
    if invisible_s is not None:
        request.invisible_duration.FromMilliseconds(int(invisible_s * 1000))
    if poll_s is not None:
        request.long_polling_timeout.FromMilliseconds(int(poll_s * 1000))
    return request


def ack(topic: str, group: str, *handles: str) -> pb.AckMessageRequest:
    """Return an acknowledgement."""
    entries = [pb.AckMessageEntry(message_id="ID", receipt_handle=handle) for handle in handles]
    return pb.AckMessageRequest(topic=resource(topic), group=resource(group), entries=entries)


def change(topic: str, group: str, handle: str, seconds: int) -> pb.ChangeInvisibleDurationRequest:
    """Return a change of an invisible time."""
    request = pb.ChangeInvisibleDurationRequest(
        topic=resource(topic), group=resource(group), receipt_handle=handle, message_id="ID"
    )
    request.invisible_duration.FromSeconds(seconds)
    return request


def bury(topic: str, group: str, handle: str) -> pb.ForwardMessageToDeadLetterQueueRequest:
    """Return a message given up."""
    return pb.ForwardMessageToDeadLetterQueueRequest(
        topic=resource(topic), group=resource(group), receipt_handle=handle, message_id="ID", delivery_attempt=1,
        max_delivery_attempts=1,
    )  # fmt: skip


def end(topic: str, transaction_id: str, resolution: int) -> pb.EndTransactionRequest:
    """Return the end of a transaction."""
    return pb.EndTransactionRequest(
        topic=resource(topic), message_id="ID", transaction_id=transaction_id,
        resolution=resolution,  # type: ignore[arg-type]
        source=pb.SOURCE_CLIENT,
    )  # fmt: skip


def producer_settings(*topics: str) -> pb.Settings:
    """Return what a producer says first."""
    settings = pb.Settings(client_type=pb.PRODUCER, publishing=pb.Publishing(topics=map(resource, topics)))
    settings.request_timeout.FromSeconds(3)
    return settings


def consumer_settings(group: str, *topics: str, kind: int = pb.SIMPLE_CONSUMER, expression: str = "*") -> pb.Settings:
    """Return what a consumer says first."""
    entries = [
        pb.SubscriptionEntry(topic=resource(topic), expression=pb.FilterExpression(type=pb.TAG, expression=expression))
        for topic in topics
    ]
    subscription = pb.Subscription(group=resource(group), subscriptions=entries)
    settings = pb.Settings(client_type=kind, subscription=subscription)  # type: ignore[arg-type]
    settings.request_timeout.FromSeconds(3)
    return settings
