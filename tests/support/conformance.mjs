// The official JavaScript SDK over every endpoint and event that it knows; `node conformance.mjs` with BASE, KEY and MODEL.
import assert from "node:assert/strict";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: process.env.BASE + "/v1", apiKey: process.env.KEY, maxRetries: 0 });
const model = process.env.MODEL;
const said = [{ role: "user", content: "one two three" }];

async function collected(stream) {
  const all = [];
  for await (const each of stream) all.push(each);
  return all;
}

// Responses: waiting, in the background, read, cancelled, listed, deleted.
const whole = await client.responses.create({ model, input: "one two three", metadata: { k: "v" } });
assert.equal(whole.output_text, "one two three");
assert.equal(whole.usage.output_tokens, 3);
const more = await client.responses.create({ model, input: "four", previous_response_id: whole.id });
assert.equal(more.status, "completed");
const job = await client.responses.create({ model, input: "{{tokens=400 tpot=20}}", background: true });
assert.ok(["queued", "in_progress"].includes((await client.responses.retrieve(job.id)).status));
assert.equal((await client.responses.cancel(job.id)).status, "cancelled");
const items = await collected(await client.responses.inputItems.list(whole.id));
assert.equal(items[0].content[0].text, "one two three");

// Its events, and the rest of them once more.
const events = await collected(await client.responses.create({ model, input: "one two three", stream: true }));
assert.deepEqual(events.map((e) => e.sequence_number), events.map((_, at) => at));
assert.equal(events[0].type, "response.created");
assert.equal(events.at(-1).type, "response.completed");
const deltas = events.filter((e) => e.type === "response.output_text.delta").map((e) => e.delta);
assert.equal(deltas.join(""), "one two three");
const id = events[0].response.id;
const rest = await collected(await client.responses.retrieve(id, { stream: true, starting_after: 3 }));
assert.deepEqual(rest.map((e) => e.sequence_number), events.slice(4).map((e) => e.sequence_number));
const final = await client.responses.stream({ model, input: "by the helper" }).finalResponse();
assert.equal(final.output_text, "by the helper");
await client.responses.delete(id);
await assert.rejects(client.responses.retrieve(id), OpenAI.NotFoundError);

// Chat: waiting, streamed, with usage, by the helper, read again.
const chat = await client.chat.completions.create({ model, messages: said });
assert.equal(chat.choices[0].message.content, "one two three");
assert.equal((await client.chat.completions.retrieve(chat.id)).usage.completion_tokens, 3);
const chunks = await collected(
  await client.chat.completions.create({ model, messages: said, stream: true, stream_options: { include_usage: true } }),
);
assert.equal(chunks.map((c) => c.choices[0]?.delta?.content ?? "").join(""), "one two three");
assert.equal(chunks.at(-1).usage.completion_tokens, 3);
assert.equal(await client.chat.completions.stream({ model, messages: said }).finalContent(), "one two three");

// Models, and what goes wrong.
assert.ok((await collected(await client.models.list())).some((each) => each.id === model));
assert.equal((await client.models.retrieve(model)).object, "model");
await assert.rejects(client.responses.create({ model: "nobody", input: "x" }), OpenAI.NotFoundError);
await assert.rejects(client.chat.completions.create({ model, messages: [] }), OpenAI.BadRequestError);
const stranger = new OpenAI({ baseURL: process.env.BASE + "/v1", apiKey: "wrong", maxRetries: 0 });
await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError);
const broken = client.chat.completions.create({
  model, messages: [{ role: "user", content: "{{tokens=9 crash_at=4}}" }], presence_penalty: 1, stream: true,
});
await assert.rejects(broken.then(collected), OpenAI.APIError);

console.log("all is well");
