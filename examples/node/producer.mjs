// Starts a run of "report", waits until it has ended, and prints its result:
//
//	NATS_URL=nats://127.0.0.1:4222 node producer.mjs
import { connect, headers } from "@nats-io/transport-node";
import { jetstream } from "@nats-io/jetstream";

const nc = await connect({ servers: process.env.NATS_URL ?? "127.0.0.1:4222" });
const id = process.argv[2] ?? `report-${Date.now()}`;
const input = { source: { text: "The pump ran without a stop. Its flow was 418 cubic metres." }, to: "customer-17@example.com", sentences: 1 };

// Subscribed before the start, so that the event cannot be missed.
const finished = nc.subscribe("pawl.finished.report", { timeout: 30_000 });

const start = headers();
start.set("Pawl-Run-Id", id);
await jetstream(nc).publish("pawl.start.report", JSON.stringify(input), { headers: start });
console.log(`${id} is stored`);

for await (const event of finished) {
  if (event.json().run === id) break;
}
const run = (await nc.request("pawl.api.view.runs.get", JSON.stringify({ id }))).json();
console.log(`${id} ${run.status}: ${run.data.summary.text}`);
await nc.close();
