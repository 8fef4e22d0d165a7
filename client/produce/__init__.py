"""Sending: from a message to its result.

- producer.py: the API; sender.py: what happens to a message, including retries
- message_encoder.py: checks a message, adds its id, compresses it; queue_choice.py, selectors.py, destinations.py:
  where it is sent
- broker_faults.py, detector.py: slow or unreachable brokers; hooks.py: a program's hooks around its sends
- broker_sender.py: sends to one broker, gathered from waiting_sends.py; pending_send.py: one of these sends;
  waiting_time.py: ends those that wait too long
- many_sending.py: a running `send_many`; bundle.py: its messages that are sent together
- request_reply.py: requests and their replies; transaction_producer.py: transactional messages
- send_requests.py, send_result.py: requests and what their responses mean; backpressure.py: limits what is in flight
- recalling.py: recalls delayed messages
- tracing.py: traces of a producer's messages; trace_writer.py: gathers and sends traces
"""
