//! Both ends by amqprs: one connection, one channel, as contend's own driver has them.
//!
//! The library does not tell the tag of a message that was published, so it is counted here: messages are published one after
//! the other, and the broker counts them in that order.
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

use amqprs::callbacks::{ChannelCallback, DefaultConnectionCallback};
use amqprs::channel::{
    BasicAckArguments, BasicConsumeArguments, BasicPublishArguments, Channel, ConfirmSelectArguments,
    ConsumerMessage, ExchangeDeclareArguments, QueueBindArguments, QueueDeclareArguments,
    QueueDeleteArguments,
};
use amqprs::connection::{Connection, OpenConnectionArguments};
use amqprs::{Ack, BasicProperties, Cancel, CloseChannel, FieldTable, FieldValue, Nack, Return};
use async_trait::async_trait;
use contend_amqp::client::own_number;
use contend_amqp::message::Ids;
use contend_amqp::url::Url;
use contend_core::clock::monotonic_ns;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot::{self, Receiver, Sender};

use crate::calls::{self, Calls, Ended, lock};
use crate::load::Caller;
use crate::told::{Counts, End};
use crate::{Answering, Failed, REPLY_EXPIRES_MS};

/// Connected, with a channel whose messages are confirmed, and the exchange declared. heard: what the broker says.
async fn open(
    url: &Url,
    end: &End,
    heard: impl ChannelCallback + Send + 'static,
) -> Result<(Connection, Channel), Failed> {
    let (host, port) = url.hosts.first().ok_or("the broker's URL names no host")?;
    let mut arguments = OpenConnectionArguments::new(host, *port, &url.user, &url.password);
    arguments.virtual_host(&url.vhost).connection_name("contend amqprs");
    let connection = Connection::open(&arguments).await?;
    connection.register_callback(DefaultConnectionCallback).await?;
    let channel = connection.open_channel(None).await?;
    channel.register_callback(heard).await?;
    let exchange = ExchangeDeclareArguments::new(&end.exchange, "topic").auto_delete(true).finish();
    channel.exchange_declare(exchange).await?;
    channel.confirm_select(ConfirmSelectArguments::default()).await?;
    Ok((connection, channel))
}

async fn consume(channel: &Channel, queue: &str) -> Result<UnboundedReceiver<ConsumerMessage>, Failed> {
    let arguments = BasicConsumeArguments::new(queue, "").manual_ack(true).finish();
    Ok(channel.basic_consume_rx(arguments).await?.1)
}

/// As kombu sends messages.
fn properties() -> BasicProperties {
    BasicProperties::default()
        .with_content_type("application/json")
        .with_content_encoding("utf-8")
        .with_headers(FieldTable::new())
        .with_delivery_mode(2)
        .with_priority(0)
        .finish()
}

fn mandatory(exchange: &str, key: &str) -> BasicPublishArguments {
    BasicPublishArguments::new(exchange, key).mandatory(true).finish()
}

/// What the broker says of messages that were published, by their tags.
trait Heard: Send {
    fn confirmed(&mut self, tag: u64, multiple: bool, ok: bool);
    fn returned(&mut self, body: &[u8], why: &str);
}

struct Callback<H>(H);

#[async_trait]
impl<H: Heard> ChannelCallback for Callback<H> {
    async fn close(&mut self, _: &Channel, why: CloseChannel) -> Result<(), amqprs::error::Error> {
        eprintln!("the broker has closed the channel: {why}");
        Ok(())
    }
    async fn cancel(&mut self, _: &Channel, _: Cancel) -> Result<(), amqprs::error::Error> {
        Ok(())
    }
    async fn flow(&mut self, _: &Channel, active: bool) -> Result<bool, amqprs::error::Error> {
        Ok(active)
    }
    async fn publish_ack(&mut self, _: &Channel, ack: Ack) {
        self.0.confirmed(ack.delivery_tag(), ack.mutiple(), true);
    }
    async fn publish_nack(&mut self, _: &Channel, nack: Nack) {
        self.0.confirmed(nack.delivery_tag(), nack.multiple(), false);
    }
    async fn publish_return(&mut self, _: &Channel, back: Return, _: BasicProperties, content: Vec<u8>) {
        self.0.returned(&content, back.reply_text());
    }
}

/// Messages that the broker has not confirmed yet.
#[derive(Default)]
struct Published {
    last: u64,
    waiting: BTreeMap<u64, Sender<bool>>,
}

impl Published {
    /// The next message's confirmation.
    fn next(&mut self) -> Receiver<bool> {
        let (tell, wait) = oneshot::channel();
        self.last += 1;
        self.waiting.insert(self.last, tell);
        wait
    }

    /// Tell those who wait. How many messages it was.
    fn confirmed(&mut self, tag: u64, multiple: bool, ok: bool) -> u64 {
        let ended = if multiple {
            let later = self.waiting.split_off(&(tag + 1));
            std::mem::replace(&mut self.waiting, later)
        } else {
            self.waiting.remove_entry(&tag).into_iter().collect()
        };
        let count = ended.len() as u64;
        for tell in ended.into_values() {
            let _ = tell.send(ok); // nobody may wait
        }
        count
    }
}

/// A channel that knows the tags of what it publishes.
struct Outgoing {
    channel: Channel,
    order: tokio::sync::Mutex<()>,
    published: Arc<Mutex<Published>>,
}

impl Outgoing {
    fn new(channel: Channel, published: Arc<Mutex<Published>>) -> Self {
        Self { channel, order: tokio::sync::Mutex::default(), published }
    }

    /// What it gives tells whether the broker took the message.
    async fn publish(
        &self,
        properties: &BasicProperties,
        body: &[u8],
        to: BasicPublishArguments,
    ) -> Result<Receiver<bool>, String> {
        let _in_order = self.order.lock().await;
        let confirm = lock(&self.published).next();
        let sent = self.channel.basic_publish(properties.clone(), body.to_vec(), to).await;
        sent.map_err(|error| error.to_string())?;
        Ok(confirm)
    }

    async fn ack(&self, message: &ConsumerMessage) -> bool {
        let Some(deliver) = &message.deliver else { return false };
        let ack = BasicAckArguments::new(deliver.delivery_tag(), false);
        self.channel.basic_ack(ack).await.is_ok()
    }
}

/// The caller.
#[derive(Clone)]
pub struct Driver(Arc<Inner>);

struct Inner {
    connection: Connection,
    out: Outgoing,
    to: BasicPublishArguments,
    properties: BasicProperties,
    reply_queue: String,
    calls: Arc<Calls>,
}

struct OfCalls {
    published: Arc<Mutex<Published>>,
    calls: Arc<Calls>,
}

impl Heard for OfCalls {
    fn confirmed(&mut self, tag: u64, multiple: bool, ok: bool) {
        lock(&self.published).confirmed(tag, multiple, ok);
    }

    fn returned(&mut self, body: &[u8], why: &str) {
        self.calls.returned(body, why);
    }
}

impl Driver {
    pub async fn open(url: &Url, end: &End) -> Result<Self, Failed> {
        let own = own_number();
        let published = Arc::<Mutex<Published>>::default();
        let calls = Arc::new(Calls::new(Ids::new(own)));
        let heard = Callback(OfCalls { published: Arc::clone(&published), calls: Arc::clone(&calls) });
        let (connection, channel) = open(url, end, heard).await?;
        let reply_queue = format!("reply_{own:016x}{:016x}", own_number());
        let mut arguments = FieldTable::new();
        arguments.insert("x-expires".try_into()?, FieldValue::I(REPLY_EXPIRES_MS));
        let declared = QueueDeclareArguments::new(&reply_queue).arguments(arguments).finish();
        channel.queue_declare(declared).await?;
        let replies = consume(&channel, &reply_queue).await?;
        let driver = Self(Arc::new(Inner {
            connection,
            out: Outgoing::new(channel, published),
            to: mandatory(&end.exchange, &end.topic),
            properties: properties().with_expiration(&end.expiration()).finish(),
            reply_queue,
            calls,
        }));
        tokio::spawn(hear(replies, driver.clone()));
        Ok(driver)
    }
}

async fn hear(mut replies: UnboundedReceiver<ConsumerMessage>, driver: Driver) {
    while let Some(message) = replies.recv().await {
        if !driver.0.out.ack(&message).await {
            break; // the connection has gone: callers are told by what they publish
        }
        driver.0.calls.replied(&message.content.unwrap_or_default());
    }
}

impl Caller for Driver {
    async fn call(&self, number: u64, body: &[u8]) -> Ended {
        let reply = self.0.calls.expect(number);
        let confirm = self.0.out.publish(&self.0.properties, body, self.0.to.clone()).await?;
        if !confirm.await.map_err(|_| "nobody listens for confirms any more".to_owned())? {
            return Err("the broker did not take it".to_owned());
        }
        reply.await.map_err(|_| "nobody listens for replies any more".to_owned())?
    }

    fn calls(&self) -> &Calls {
        &self.0.calls
    }

    fn reply_queue(&self) -> &str {
        &self.0.reply_queue
    }

    async fn close(self) {
        // They may have gone already.
        let _ = self.0.out.channel.queue_delete(QueueDeleteArguments::new(&self.0.reply_queue)).await;
        let _ = self.0.connection.clone().close().await;
    }
}

/// The simulated service.
pub struct Service {
    connection: Connection,
    counts: Arc<Counts>,
}

struct OfReplies {
    published: Arc<Mutex<Published>>,
    counts: Arc<Counts>,
}

impl Heard for OfReplies {
    fn confirmed(&mut self, tag: u64, multiple: bool, ok: bool) {
        let messages = lock(&self.published).confirmed(tag, multiple, ok);
        let counter = if ok { &self.counts.confirmed } else { &self.counts.undelivered };
        counter.fetch_add(messages, Ordering::Relaxed);
    }

    fn returned(&mut self, _: &[u8], _: &str) {
        Counts::add(&self.counts.undelivered);
    }
}

impl Service {
    pub async fn open(url: &Url, end: &End) -> Result<Self, Failed> {
        let counts = Arc::new(Counts::default());
        let published = Arc::<Mutex<Published>>::default();
        let heard = Callback(OfReplies { published: Arc::clone(&published), counts: Arc::clone(&counts) });
        let (connection, channel) = open(url, end, heard).await?;
        let mut listening = Vec::new();
        for queue in end.service_queues() {
            channel.queue_declare(QueueDeclareArguments::transient_autodelete(&queue)).await?;
            channel.queue_bind(QueueBindArguments::new(&queue, &end.exchange, &queue)).await?;
        }
        for queue in end.service_queues() {
            listening.push(consume(&channel, &queue).await?);
        }
        let out = Arc::new(Outgoing::new(channel, published));
        for requests in listening {
            let work = Work {
                out: Arc::clone(&out),
                counts: Arc::clone(&counts),
                answer: end.answer()?,
                envelope: end.envelope,
                ids: Ids::new(own_number()),
            };
            tokio::spawn(work.answer(requests));
        }
        Ok(Self { connection, counts })
    }
}

struct Work {
    out: Arc<Outgoing>,
    counts: Arc<Counts>,
    answer: Vec<u8>,
    envelope: bool,
    ids: Ids,
}

impl Work {
    async fn answer(mut self, mut requests: UnboundedReceiver<ConsumerMessage>) {
        let (mut body, mut number, properties) = (Vec::new(), 0, properties());
        while let Some(message) = requests.recv().await {
            // oslo.messaging's service acknowledges before it works.
            if !self.out.ack(&message).await {
                break;
            }
            if message.deliver.as_ref().is_some_and(|deliver| deliver.redelivered()) {
                Counts::add(&self.counts.redelivered);
            }
            number += 1;
            let (data, answer) = (message.content.unwrap_or_default(), &self.answer);
            match calls::answer(&data, answer, &mut self.ids, number, self.envelope, &mut body) {
                // Whether the broker took it is counted where that is heard.
                Some(queue) => {
                    if self.out.publish(&properties, &body, mandatory("", &queue)).await.is_err() {
                        break;
                    }
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
        let _ = self.connection.close().await; // it may have gone already
    }
}
