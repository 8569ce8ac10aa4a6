// Perfetto's trace_processor for WebAssembly, run by Node as in a web worker: requests on stdin, replies on stdout.
// node trace_processor.js DIRECTORY, where engine_bundle.js and *.wasm are.
"use strict";
const fs = require("fs");
const path = require("path");

const directory = process.argv[2];
const requests = fs.readFileSync(0);
const replies = [];
const said = (...words) => console.error(...words);

// What a worker has that Node has not; the module is fetched by a synchronous request.
class Request {
  open(method, url) {
    this.url = url;
  }
  send() {
    this.response = new Uint8Array(fs.readFileSync(path.join(directory, path.basename(this.url)))).buffer;
  }
}
const location = { href: "file:///engine_bundle.js" };
const worker = { location };
const port = { onmessage: null, postMessage: (data) => replies.push(Buffer.from(data)) };

// It asks what it runs in: a worker, and no Node.
const given = {
  process: undefined,
  require: undefined,
  module: undefined,
  self: worker,
  WorkerGlobalScope: Object,
  XMLHttpRequest: Request,
  location,
  console: { log: said, warn() {}, error: said },
};
const bundle = fs.readFileSync(path.join(directory, "engine_bundle.js"), "utf8");
new Function(...Object.keys(given), bundle)(...Object.values(given));
worker.onmessage({ data: port });

// Its own beginning is a few promises long.
setTimeout(() => {
  port.onmessage({ data: new Uint8Array(requests) });
  const all = Buffer.concat(replies);
  for (let at = 0; at < all.length; ) at += fs.writeSync(1, all, at);
}, 100);
