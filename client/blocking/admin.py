"""Administration without asyncio: `with Admin("127.0.0.1:9876") as admin: admin.create_topic("orders")`."""

from staticfire.client.admin.admin import Admin
from staticfire.client.blocking.face import BlockingFace, blocking


class BlockingAdmin(BlockingFace[Admin]):
    """Asks and changes. Any number of threads may use it."""

    cluster_info = blocking(Admin.cluster_info)
    masters = blocking(Admin.masters)
    topics = blocking(Admin.topics)
    route = blocking(Admin.route)
    topic_config = blocking(Admin.topic_config)
    create_topic = blocking(Admin.create_topic)
    delete_topic = blocking(Admin.delete_topic)
    create_group = blocking(Admin.create_group)
    group_config = blocking(Admin.group_config)
    members = blocking(Admin.members)
    group = blocking(Admin.group)
    groups = blocking(Admin.groups)
    has_group = blocking(Admin.has_group)
    set_consume_mode = blocking(Admin.set_consume_mode)
    dead_letters = blocking(Admin.dead_letters)
    find = blocking(Admin.find)
    consumption = blocking(Admin.consumption)
    lives = blocking(Admin.lives)
    journal = blocking(Admin.journal)
    requests = blocking(Admin.requests)
    max_offset = blocking(Admin.max_offset)
    min_offset = blocking(Admin.min_offset)
    search_offset = blocking(Admin.search_offset)
    reset_offset_by_time = blocking(Admin.reset_offset_by_time)
    put_kv = blocking(Admin.put_kv)
    get_kv = blocking(Admin.get_kv)
    list_kv = blocking(Admin.list_kv)
    delete_kv = blocking(Admin.delete_kv)
