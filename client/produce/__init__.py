"""Sending: from a message to its result.

- producer.py: the face; sender.py: what happens to a message, retries included
- message_encoder.py: checked, given its id, compressed; queue_choice.py, selectors.py, destinations.py: where it goes
- broker_faults.py, detector.py: brokers that are slow or away; hooks.py: what a program has called around its sends
- broker_sender.py: what leaves for one broker, gathered from waiting_sends.py; pending_send.py: one of them
- many_sending.py: a `send_many` on its way; bundle.py: what of it leaves together
- request_reply.py: messages that ask for an answer, and the answers; transaction_producer.py: messages in two halves
- send_requests.py, send_result.py: requests and what their answers say; backpressure.py: how much is under way
- recalling.py: messages that are called back
- tracing.py: what a producer writes of its messages; trace_writer.py: gathers and sends it
"""
