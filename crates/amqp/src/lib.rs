//! A driver for RPC over AMQP 0-9-1 that costs almost nothing: the floor that messaging libraries are measured against.
//!
//! * [`wire`], [`table`], [`properties`], [`method`]: the protocol's bytes. * [`url`]: where a broker is.
//! * [`stream`]: TCP or TLS. * [`session`]: a connection and the pump of its frames. * [`message`]: what calls and replies hold.
//! * [`client`]: sends calls, in a closed or an open loop. * [`server`]: answers them.
//! * [`terms`]: what both agree on.
//!
//! One thread, one connection, one channel, epoll. It is RPC as [oslo.messaging](https://docs.openstack.org/oslo.messaging)
//! speaks it, so that either end may be that library; or the least that does the same.

pub mod client;
pub mod message;
pub mod method;
pub mod properties;
pub mod server;
pub mod session;
pub mod stream;
pub mod table;
pub mod terms;
pub mod url;
pub mod wire;
