// Performs effects of type "pdf.render" for a fleet that has, in config.yaml,
//
//	effects: {bound: {pdf.render: {subject: "pdf.render", timeout: 2m}}}
//
//	NATS_URL=nats://127.0.0.1:4222 node responder.mjs
import { connect, headers } from "@nats-io/transport-node";

const nc = await connect({ servers: process.env.NATS_URL ?? "127.0.0.1:4222" });
const results = new Map(); // by key: a service of your own keeps them where they last

function fail(message, code, text) {
  const h = headers();
  h.set("Nats-Service-Error-Code", String(code));
  h.set("Nats-Service-Error", text);
  message.respond("", { headers: h });
}

// Those who share a queue group share the work.
const requests = nc.subscribe("pdf.render", { queue: "pdf" });
console.log("listening on pdf.render");
for await (const request of requests) {
  const key = request.headers.get("Pawl-Idempotency-Key");
  let input;
  try {
    input = request.json();
  } catch {
    fail(request, 400, "the input is not JSON"); // never tried again
    continue;
  }
  if (typeof input.title !== "string") {
    fail(request, 400, "title is missing");
    continue;
  }
  if (!results.has(key)) results.set(key, { title: input.title, pages: 1 + Math.floor(input.title.length / 40) });
  request.respond(JSON.stringify(results.get(key))); // the same key, the same result
  console.log(`${request.headers.get("Pawl-Run-Id")}: attempt ${request.headers.get("Pawl-Attempt")} of ${input.title}`);
}
