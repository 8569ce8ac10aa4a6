//! Both ends by lapin: one connection, one channel, as contend's own driver has them.
use std::sync::Arc;

use contend_amqp::client::own_number;
use contend_amqp::message::Ids;
use contend_amqp::url::Url;
use contend_core::clock::monotonic_ns;
use futures_util::StreamExt;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions,
    QueueBindOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{FieldTable, ShortString};
use lapin::uri::{AMQPAuthority, AMQPScheme, AMQPUri, AMQPUserInfo};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, Consumer, ExchangeKind,
    PublisherConfirm,
};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::calls::{self, Calls, Ended};
use crate::load::Caller;
use crate::told::{Counts, End};
use crate::{Answering, Failed, REPLY_EXPIRES_MS};

const MANDATORY: BasicPublishOptions = BasicPublishOptions { mandatory: true, immediate: false };

/// Connected, with a channel whose messages are confirmed, and the exchange declared.
async fn open(url: &Url, end: &End) -> Result<(Connection, Channel), Failed> {
    let (host, port) = url.hosts.first().cloned().ok_or("the broker's URL names no host")?;
    let userinfo = AMQPUserInfo { username: url.user.clone(), password: url.password.clone() };
    let uri = AMQPUri {
        scheme: AMQPScheme::AMQP,
        authority: AMQPAuthority { userinfo, host, port },
        vhost: url.vhost.clone(),
        query: Default::default(),
    };
    let properties = ConnectionProperties::default().with_connection_name("contend lapin".into());
    let connection = Connection::connect_uri(uri, properties).await?;
    let channel = connection.create_channel().await?;
    let life = ExchangeDeclareOptions { auto_delete: true, ..ExchangeDeclareOptions::default() };
    let exchange = end.exchange.as_str().into();
    channel.exchange_declare(exchange, ExchangeKind::Topic, life, FieldTable::default()).await?;
    channel.confirm_select(ConfirmSelectOptions::default()).await?;
    Ok((connection, channel))
}

async fn consume(channel: &Channel, queue: &str) -> lapin::Result<Consumer> {
    let (tag, options) = (ShortString::default(), BasicConsumeOptions::default());
    channel.basic_consume(queue.into(), tag, options, FieldTable::default()).await
}

/// As kombu sends messages.
fn properties() -> BasicProperties {
    BasicProperties::default()
        .with_content_type("application/json".into())
        .with_content_encoding("utf-8".into())
        .with_headers(FieldTable::default())
        .with_delivery_mode(2)
        .with_priority(0)
}

/// What the broker says of a message.
async fn confirmed(confirm: PublisherConfirm) -> Ended {
    match confirm.await {
        Ok(Confirmation::Ack(None)) => Ok(()),
        Ok(Confirmation::Ack(Some(back)) | Confirmation::Nack(Some(back))) => {
            Err(format!("returned: {}", back.reply_text))
        }
        Ok(Confirmation::Nack(None)) => Err("the broker did not take it".to_owned()),
        Ok(Confirmation::NotRequested) => Err("nothing is confirmed on this channel".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

async fn goodbye(connection: &Connection) {
    let _ = connection.close(200, "done".into()).await; // it may have gone already
}

/// The caller.
#[derive(Clone)]
pub struct Driver(Arc<Inner>);

struct Inner {
    connection: Connection,
    channel: Channel,
    exchange: ShortString,
    topic: ShortString,
    properties: BasicProperties,
    reply_queue: String,
    calls: Arc<Calls>,
}

impl Driver {
    pub async fn open(url: &Url, end: &End) -> Result<Self, Failed> {
        let (connection, channel) = open(url, end).await?;
        let own = own_number();
        let reply_queue = format!("reply_{own:016x}{:016x}", own_number());
        let mut arguments = FieldTable::default();
        arguments.insert("x-expires".into(), REPLY_EXPIRES_MS.into());
        channel.queue_declare(reply_queue.as_str().into(), QueueDeclareOptions::default(), arguments).await?;
        let calls = Arc::new(Calls::new(Ids::new(own)));
        tokio::spawn(hear(consume(&channel, &reply_queue).await?, Arc::clone(&calls)));
        Ok(Self(Arc::new(Inner {
            connection,
            channel,
            exchange: end.exchange.as_str().into(),
            topic: end.topic.as_str().into(),
            properties: properties().with_expiration(end.expiration().as_str().into()),
            reply_queue,
            calls,
        })))
    }
}

async fn hear(mut replies: Consumer, calls: Arc<Calls>) {
    while let Some(Ok(delivery)) = replies.next().await {
        if delivery.ack(BasicAckOptions::default()).await.is_err() {
            break; // the connection has gone: callers are told by what they publish
        }
        calls.replied(&delivery.data);
    }
}

impl Caller for Driver {
    async fn call(&self, number: u64, body: &[u8]) -> Ended {
        let to = &self.0;
        let reply = to.calls.expect(number);
        let (exchange, topic) = (to.exchange.clone(), to.topic.clone());
        let published =
            to.channel.basic_publish(exchange, topic, MANDATORY, body, to.properties.clone()).await;
        confirmed(published.map_err(|error| error.to_string())?).await?;
        reply.await.map_err(|_| "nobody listens for replies any more".to_owned())?
    }

    fn calls(&self) -> &Calls {
        &self.0.calls
    }

    fn reply_queue(&self) -> &str {
        &self.0.reply_queue
    }

    async fn close(self) {
        let queue = self.0.reply_queue.as_str().into();
        let _ = self.0.channel.queue_delete(queue, QueueDeleteOptions::default()).await;
        goodbye(&self.0.connection).await;
    }
}

/// The simulated service.
pub struct Service {
    connection: Connection,
    counts: Arc<Counts>,
}

impl Service {
    pub async fn open(url: &Url, end: &End) -> Result<Self, Failed> {
        let (connection, channel) = open(url, end).await?;
        let counts = Arc::new(Counts::default());
        let (published, mut confirms) = unbounded_channel();
        let counting = Arc::clone(&counts);
        tokio::spawn(async move {
            while let Some(confirm) = confirms.recv().await {
                let how = confirmed(confirm).await;
                Counts::add(if how.is_ok() { &counting.confirmed } else { &counting.undelivered });
            }
        });
        let life = QueueDeclareOptions { auto_delete: true, ..QueueDeclareOptions::default() };
        for queue in end.service_queues() {
            let name: ShortString = queue.as_str().into();
            channel.queue_declare(name.clone(), life, FieldTable::default()).await?;
            let (exchange, key) = (end.exchange.as_str().into(), name.clone());
            let (options, arguments) = (QueueBindOptions::default(), FieldTable::default());
            channel.queue_bind(name, exchange, key, options, arguments).await?;
        }
        for queue in end.service_queues() {
            let work = Work {
                channel: channel.clone(),
                counts: Arc::clone(&counts),
                published: published.clone(),
                answer: end.answer()?,
                envelope: end.envelope,
                ids: Ids::new(own_number()),
            };
            tokio::spawn(work.answer(consume(&channel, &queue).await?));
        }
        Ok(Self { connection, counts })
    }
}

struct Work {
    channel: Channel,
    counts: Arc<Counts>,
    published: UnboundedSender<PublisherConfirm>,
    answer: Vec<u8>,
    envelope: bool,
    ids: Ids,
}

impl Work {
    async fn answer(mut self, mut requests: Consumer) {
        let (mut body, mut number, properties) = (Vec::new(), 0, properties());
        while let Some(Ok(delivery)) = requests.next().await {
            // oslo.messaging's service acknowledges before it works.
            if delivery.ack(BasicAckOptions::default()).await.is_err() {
                break;
            }
            if delivery.redelivered {
                Counts::add(&self.counts.redelivered);
            }
            number += 1;
            let (data, answer) = (&delivery.data, &self.answer);
            match calls::answer(data, answer, &mut self.ids, number, self.envelope, &mut body) {
                Some(queue) => {
                    let (to, queue) = (ShortString::default(), queue.as_str().into());
                    let sent =
                        self.channel.basic_publish(to, queue, MANDATORY, &body, properties.clone()).await;
                    let Ok(confirm) = sent else { break };
                    let _ = self.published.send(confirm); // its reader lives as long as this
                }
                None => Counts::add(&self.counts.malformed),
            }
            self.counts.done(monotonic_ns());
        }
    }
}

impl Answering for Service {
    fn counts(&self) -> &Counts {
        &self.counts
    }

    async fn close(self) {
        goodbye(&self.connection).await;
    }
}
