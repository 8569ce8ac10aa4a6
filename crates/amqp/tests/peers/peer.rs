//! A broker that follows a script.
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread::JoinHandle;

use contend_amqp::message;
use contend_amqp::method::{self, Id};
use contend_amqp::properties::{self, Properties};
use contend_amqp::wire::{self, BODY, HEADER, METHOD};

pub const MS: u64 = 1_000_000;
pub const FRAME_MAX: u32 = 131_072;

/// The broker's end of one connection.
pub struct Peer {
    pub socket: TcpStream,
    pub input: Vec<u8>,
}

impl Peer {
    /// The next frame: kind, channel, payload. None when the client has hung up.
    pub fn frame(&mut self) -> Option<(u8, u16, Vec<u8>)> {
        loop {
            if let Some((frame, used)) = wire::frame(&self.input, FRAME_MAX as usize).unwrap() {
                let found = (frame.kind, frame.channel, frame.payload.to_vec());
                self.input.drain(..used);
                return Some(found);
            }
            let mut room = [0; 65536];
            match self.socket.read(&mut room) {
                Ok(n) if n > 0 => self.input.extend_from_slice(&room[..n]),
                _ => return None,
            }
        }
    }

    pub fn send(&mut self, channel: u16, id: Id, fields: &[u8]) {
        let mut out = Vec::new();
        wire::put_frame(&mut out, METHOD, channel, |out| {
            out.extend_from_slice(&id.0.to_be_bytes());
            out.extend_from_slice(&id.1.to_be_bytes());
            out.extend_from_slice(fields);
        });
        self.socket.write_all(&out).unwrap();
    }

    /// Until the client has a channel.
    pub fn greet(&mut self, frame_max: u32, heartbeat: u16) {
        let mut header = [0; 8];
        self.socket.read_exact(&mut header).unwrap();
        assert_eq!(&header, b"AMQP\0\0\x09\x01");
        self.send(0, method::START, b"\0\x09\0\0\0\0\0\0\0\x05PLAIN\0\0\0\x05en_US");
        self.frame().unwrap(); // start-ok
        let mut limits = vec![0, 1];
        limits.extend_from_slice(&frame_max.to_be_bytes());
        limits.extend_from_slice(&heartbeat.to_be_bytes());
        self.send(0, method::TUNE, &limits);
    }

    /// Answers what wants an answer.
    pub fn answer(&mut self, channel: u16, id: Id) {
        match id {
            (10, 40) => self.send(0, method::OPEN_OK, &[0]),
            (20, 10) => self.send(channel, method::CHANNEL_OPEN_OK, &[0; 4]),
            (40, 10) => self.send(channel, method::EXCHANGE_DECLARE_OK, &[]),
            (50, 10) => self.send(channel, method::QUEUE_DECLARE_OK, b"\x01q\0\0\0\0\0\0\0\0"),
            (50, 20) => self.send(channel, method::QUEUE_BIND_OK, &[]),
            (50, 40) => self.send(channel, method::QUEUE_DELETE_OK, &[0; 4]),
            (85, 10) => self.send(channel, method::CONFIRM_SELECT_OK, &[]),
            method::CLOSE => self.send(0, method::CLOSE_OK, &[]),
            _ => {}
        }
    }

    /// Answers what is declared until a service listens to its two queues.
    pub fn listened_to(&mut self) {
        let mut queues = 0;
        while queues < 2 {
            let (kind, channel, payload) = self.frame().unwrap();
            if kind == METHOD {
                let id = method::id(&payload).unwrap().0;
                self.answer(channel, id);
                queues += u32::from(id == (60, 20));
            }
        }
    }

    /// Answers what is declared until the client publishes: the message's body. None when it has hung up.
    pub fn published(&mut self) -> Option<Vec<u8>> {
        let (mut length, mut body) = (None, Vec::new());
        loop {
            let (kind, channel, payload) = self.frame()?;
            match kind {
                METHOD => self.answer(channel, method::id(&payload).unwrap().0),
                HEADER => length = Some(properties::take(&payload).unwrap().0),
                BODY => body.extend_from_slice(&payload),
                _ => {}
            }
            if length == Some(body.len() as u64) {
                return Some(body);
            }
        }
    }

    pub fn confirm(&mut self, tag: u64, multiple: bool, ok: bool) {
        let mut fields = tag.to_be_bytes().to_vec();
        fields.push(u8::from(multiple));
        self.send(1, (60, if ok { 80 } else { 120 }), &fields);
    }

    /// The frames of a reply to that request.
    pub fn reply_to(request: &[u8], answer: &[u8], frame_max: usize) -> Vec<u8> {
        let request = message::read(request).unwrap();
        let mut body = Vec::new();
        message::reply(&mut body, answer, request["_msg_id"].as_str().unwrap(), "unique", true);
        Self::message(b"\0\x3c\0\x3c\x01q\0\0\0\0\0\0\0\x01\0\0\x01q", &body, frame_max)
    }

    /// The frames of a message that follows a method.
    pub fn message(method: &[u8], body: &[u8], frame_max: usize) -> Vec<u8> {
        let mut out = Vec::new();
        wire::put_frame(&mut out, METHOD, 1, |out| out.extend_from_slice(method));
        wire::put_frame(&mut out, HEADER, 1, |out| {
            properties::put(out, body.len() as u64, &Properties::default());
        });
        for piece in body.chunks(frame_max) {
            wire::put_frame(&mut out, BODY, 1, |out| out.extend_from_slice(piece));
        }
        out
    }

    /// A message to a consumer.
    pub fn deliver(&mut self, body: &[u8]) {
        let frames = Self::message(b"\0\x3c\0\x3c\x01q\0\0\0\0\0\0\0\x01\0\0\x01q", body, 4096);
        self.socket.write_all(&frames).unwrap();
    }

    /// A message that no queue took: 312 NO_ROUTE. Its confirm is sent apart.
    pub fn give_back(&mut self, body: &[u8]) {
        let frames = Self::message(b"\0\x3c\0\x32\x01\x38\x08NO_ROUTE\x01x\x01t", body, 4096);
        self.socket.write_all(&frames).unwrap();
    }

    pub fn reply(&mut self, request: &[u8]) {
        let reply = Self::reply_to(request, b"1", 4096);
        self.socket.write_all(&reply).unwrap();
    }
}

pub type Script = Box<dyn FnOnce(&mut Peer) + Send>;

/// A script for each connection, one after the other, and the URL of who follows it.
pub fn scripted(scripts: Vec<Script>) -> (String, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("rabbit://me:secret@{}/", listener.local_addr().unwrap());
    let thread = std::thread::spawn(move || {
        for script in scripts {
            let (socket, _) = listener.accept().unwrap();
            script(&mut Peer { socket, input: Vec::new() });
        }
    });
    (url, thread)
}
