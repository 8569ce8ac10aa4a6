"""RabbitMQ brought up by hand on the loopback device: one node, or three that make a cluster."""
