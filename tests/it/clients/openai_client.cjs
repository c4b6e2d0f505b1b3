// The calls that people make with the official `openai` package of Node, against `gate serve`.
//
// Arguments: the folder where the package is installed, and the addresses of a fast server, of a slow one
// (a long decode step, one request running and one waiting) and of a port where nobody listens. One line a
// check: `ok NAME` or `FAIL NAME` with what differs.
"use strict";

const assert = require("node:assert/strict");
const http = require("node:http");
const { createRequire } = require("node:module");

const [FOLDER, FAST, SLOW, GONE] = process.argv.slice(2);
const load = createRequire(`${FOLDER}/`);
const OpenAI = load("openai");
const { VERSION } = load("openai/version");

const MODEL = "tiny-qwen3";
const DEADLINE_MS = 60_000;
const CHAT = [{ role: "user", content: "What is 12+34?" }];
const CHECKS = [];

const check = (name, run) => CHECKS.push([name, run]);
const client = (address = FAST, more = {}) =>
  new OpenAI({ baseURL: `${address}/v1`, apiKey: "none", timeout: DEADLINE_MS, maxRetries: 0, ...more });

// The members beside OpenAI's own go into the body as they are.
const complete = (more = {}) =>
  client().completions.create({
    model: MODEL, prompt: "1+1=", temperature: 0, max_tokens: 24, ignore_eos: true, return_token_ids: true, ...more,
  });
const chat = (more = {}) =>
  client().chat.completions.create({ model: MODEL, messages: CHAT, temperature: 0, ...more });
const long = (more = {}, options = {}) =>
  client(SLOW).completions.create(
    { model: MODEL, prompt: "1+1=", max_tokens: 500, ignore_eos: true, stream: true, ...more }, options,
  );

/** The error of a call that must fail with this class. */
async function fails(kind, call, members = {}) {
  let error;
  try {
    await call();
  } catch (caught) {
    error = caught;
  }
  assert.ok(error instanceof kind, `no ${kind.name} but ${error}`);
  for (const [name, want] of Object.entries(members)) assert.equal(error[name], want, `${name} of ${error}`);
  return error;
}

async function metric(name) {
  const text = await (await fetch(`${SLOW}/metrics`)).text();
  return Number(text.split("\n").find((line) => line.startsWith(`${name}{`)).split(" ").at(-1));
}

async function awaitMetric(name, value) {
  const end = Date.now() + DEADLINE_MS;
  for (let now; (now = await metric(name)) !== value; ) {
    assert.ok(Date.now() < end, `${name} stayed ${now}, not ${value}`);
  }
}

async function awaitIdle() {
  for (const name of ["vllm:num_requests_running", "vllm:num_requests_waiting", "infergate_kv_bytes_used"]) {
    await awaitMetric(name, 0);
  }
}

/** The text of each choice, and the usage of the last chunk. */
async function joined(stream) {
  const texts = [];
  let usage = null;
  for await (const chunk of stream) {
    for (const { index, text, delta } of chunk.choices) {
      texts[index] = (texts[index] ?? "") + (text ?? delta?.content ?? "");
    }
    usage = chunk.usage ?? usage;
  }
  return { texts, usage };
}

check("models list", async () => {
  const ids = [];
  for await (const model of client().models.list()) ids.push(model.id);
  assert.deepEqual(ids, [MODEL]);
});

check("models retrieve", async () => {
  assert.equal((await client().models.retrieve(MODEL)).id, MODEL);
  await fails(OpenAI.NotFoundError, () => client().models.retrieve("other"), { code: "model_not_found" });
});

check("completion with usage", async () => {
  const { choices: [choice], usage } = await complete();
  assert.equal(choice.finish_reason, "length");
  assert.equal(usage.completion_tokens, 24);
  assert.equal(usage.total_tokens, usage.prompt_tokens + 24);
  assert.notEqual(choice.text.trim(), "");
});

check("completion streamed with usage", async () => {
  const whole = await complete();
  const { texts, usage } = await joined(await complete({ stream: true, stream_options: { include_usage: true } }));
  assert.deepEqual(texts, [whole.choices[0].text]);
  assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
  assert.equal(usage.prompt_tokens, whole.usage.prompt_tokens);
});

check("completion of several prompts", async () => {
  const prompt = ["1+1=", "hello", "2+2="];
  const alone = [];
  for (const one of prompt) alone.push((await complete({ prompt: one })).choices[0].text);
  const answer = await complete({ prompt });
  assert.deepEqual(answer.choices.map((choice) => choice.text), alone);
  assert.equal(answer.usage.completion_tokens, 72);
  assert.deepEqual((await joined(await complete({ prompt, stream: true }))).texts, alone);
});

check("chat with usage", async () => {
  const { choices: [choice], usage } = await chat();
  assert.equal(choice.message.role, "assistant");
  assert.equal(choice.message.content, "46");
  assert.equal(choice.finish_reason, "stop");
  assert.equal(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
});

check("chat streamed with usage", async () => {
  const { texts, usage } = await joined(await chat({ stream: true, stream_options: { include_usage: true } }));
  assert.deepEqual(texts, ["46"]);
  assert.equal(usage.completion_tokens, (await chat()).usage.completion_tokens);
});

check("chat stream helper", async () => {
  const stream = client().chat.completions.stream({ model: MODEL, messages: CHAT, temperature: 0 });
  assert.equal(await stream.finalContent(), "46");
});

check("raw response has JSON", async () => {
  const call = client().chat.completions.create({ model: MODEL, messages: CHAT, temperature: 0 });
  const { data, response } = await call.withResponse();
  assert.equal(response.headers.get("content-type"), "application/json");
  assert.equal(data.choices[0].message.content, "46");
});

check("several choices", async () => {
  const more = { n: 3, seed: 11, temperature: 1.5 };
  const whole = await complete(more);
  assert.deepEqual(whole.choices.map((choice) => choice.index), [0, 1, 2]);
  assert.deepEqual(whole.choices.map((choice) => choice.token_ids.length), [24, 24, 24]);
  assert.equal(whole.usage.completion_tokens, 72);
  const texts = whole.choices.map((choice) => choice.text);
  assert.ok(new Set(texts).size > 1, `all choices are ${texts[0]}`);
  const streamed = await joined(await complete({ ...more, stream: true, stream_options: { include_usage: true } }));
  assert.deepEqual(streamed.texts, texts);
  assert.equal(streamed.usage.completion_tokens, 72);
});

check("several choices of a chat", async () => {
  const more = { n: 3, seed: 11, temperature: 1.5, max_tokens: 24 };
  const whole = (await chat(more)).choices.map((choice) => choice.message.content);
  assert.equal(whole.length, 3);
  assert.deepEqual((await joined(await chat({ ...more, stream: true }))).texts, whole);
});

check("stop texts", async () => {
  const full = (await complete()).choices[0].text;
  const text = full.slice(4, 6);
  const cut = full.slice(0, full.indexOf(text));
  for (const stop of [text, ["never there", text]]) {
    const { choices: [choice] } = await complete({ stop });
    assert.equal(choice.text, cut);
    assert.equal(choice.finish_reason, "stop");
    assert.deepEqual((await joined(await complete({ stop, stream: true }))).texts, [cut]);
  }
});

check("stop texts of a chat", async () => {
  const { choices: [choice] } = await chat({ stop: "6" });
  assert.equal(choice.message.content, "4");
  assert.equal(choice.finish_reason, "stop");
});

check("logprobs of a completion", async () => {
  const { logprobs } = (await complete({ logprobs: 3 })).choices[0];
  assert.equal(logprobs.tokens.length, 24);
  assert.ok(logprobs.token_logprobs.every((value) => value <= 0), "a log-probability above 0");
  const streamed = [];
  for await (const chunk of await complete({ logprobs: 3, stream: true })) {
    for (const choice of chunk.choices) streamed.push(...(choice.logprobs?.token_logprobs ?? []));
  }
  assert.deepEqual(streamed, logprobs.token_logprobs);
});

check("logprobs of a chat", async () => {
  const { choices: [choice], usage } = await chat({ logprobs: true, top_logprobs: 2 });
  const { content } = choice.logprobs;
  assert.equal(content.length, usage.completion_tokens);
  assert.ok(content.every((one) => one.top_logprobs.length === 2), "not 2 best tokens");
  assert.deepEqual(content.map((one) => one.top_logprobs[0].token), content.map((one) => one.token));
});

check("a seed gives equal answers", async () => {
  const seeds = [...Array(8).keys()];
  const texts = () => Promise.all(seeds.map(async (seed) => (await complete({ seed, temperature: 1.5 })).choices[0].text));
  const first = await texts();
  assert.deepEqual(await texts(), first);
  assert.ok(new Set(first).size > 1, `every seed gives ${first[0]}`);
});

check("logit bias", async () => {
  const last = (await complete()).choices[0].token_ids.at(-1);
  const { choices: [choice] } = await complete({ max_tokens: 6, logit_bias: { [last]: 100 } });
  assert.deepEqual(choice.token_ids, Array(6).fill(last));
});

check("temperature and penalties", async () => {
  const more = { seed: 1, temperature: 0.7, top_p: 0.9, presence_penalty: 0.5, frequency_penalty: 0.5 };
  assert.equal((await complete(more)).usage.completion_tokens, 24);
  for (const [param, value] of [["temperature", 3], ["top_p", 2], ["presence_penalty", 5]]) {
    await fails(OpenAI.BadRequestError, () => complete({ [param]: value }), { param });
  }
});

check("eight calls at once", async () => {
  const prompts = [...Array(8).keys()].map((number) => `${number}+1=`);
  const alone = [];
  for (const prompt of prompts) alone.push((await complete({ prompt })).choices[0].text);
  const answers = await Promise.all(prompts.map((prompt) => complete({ prompt })));
  assert.deepEqual(answers.map((answer) => answer.choices[0].text), alone);
});

check("tools are called", async () => {
  const a = { type: "integer", minimum: 0, maximum: 9 };
  const parameters = { type: "object", properties: { a }, required: ["a"], additionalProperties: false };
  const tools = [{ type: "function", function: { name: "add", parameters } }];
  assert.equal((await chat({ tools, tool_choice: "none" })).choices[0].message.tool_calls, undefined);
  const [choice] = (await chat({ tools, tool_choice: "required", max_tokens: 200 })).choices;
  assert.equal(choice.finish_reason, "tool_calls");
  assert.equal(choice.message.content, null);
  const call = choice.message.tool_calls[0].function;
  assert.equal(call.name, "add");
  assert.ok(JSON.parse(call.arguments).a <= 9);
  const tool_choice = { type: "function", function: { name: "add" } };
  const got = [];
  for await (const chunk of await chat({ tools, tool_choice, max_tokens: 200, stream: true })) {
    for (const { delta } of chunk.choices) got.push(...(delta.tool_calls ?? []));
  }
  assert.deepEqual(got.map((one) => one.function.arguments), [call.arguments]);
});

check("Qwen3's switch, and an answer has a name", async () => {
  const answer = await chat({ chat_template_kwargs: { enable_thinking: false } });
  assert.match(answer._request_id, /^req-/);
});

check("answers have the schema", async () => {
  const properties = { x: { enum: ["on", "off"] } };
  const schema = { type: "object", properties, required: ["x"], additionalProperties: false };
  const response_format = { type: "json_schema", json_schema: { name: "n", strict: true, schema } };
  const text = (await chat({ response_format, max_tokens: 100 })).choices[0].message.content;
  assert.ok(["on", "off"].includes(JSON.parse(text).x), text);
  let streamed = "";
  for await (const chunk of await chat({ response_format, max_tokens: 100, stream: true })) {
    for (const { delta } of chunk.choices) streamed += delta.content ?? "";
  }
  assert.equal(streamed, text);
});

check("a wrong model is not found", () =>
  fails(OpenAI.NotFoundError, () => chat({ model: "gpt-4o" }), { code: "model_not_found", status: 404 }));

check("an unknown parameter is refused", async () => {
  const error = await fails(OpenAI.BadRequestError, () => chat({ temprature: 1 }), { code: "unknown_parameter" });
  assert.match(error.message, /did you mean `temperature`/);
});

check("too long a context is refused", () =>
  fails(OpenAI.BadRequestError, () => complete({ max_tokens: 40_000 }), { code: "context_length_exceeded" }));

/** Two bare requests that nobody reads: one runs, one waits, and the slow server takes no more. */
async function occupied(run) {
  const requests = [];
  const leave = () => requests.forEach((request) => request.destroy());
  try {
    for (const name of ["vllm:num_requests_running", "vllm:num_requests_waiting"]) {
      const request = http.request(`${SLOW}/v1/completions`, {
        method: "POST", headers: { "content-type": "application/json" }, agent: new http.Agent(),
      });
      request.on("error", () => {}); // it is destroyed before it is answered
      request.end(JSON.stringify({ prompt: "1+1=", max_tokens: 500, ignore_eos: true, stream: true }));
      requests.push(request);
      await awaitMetric(name, 1);
    }
    await run(leave);
  } finally {
    leave();
    await awaitIdle();
  }
}

check("a full queue is a rate limit error", () =>
  occupied(async () => {
    const error = await fails(OpenAI.RateLimitError, () => long({ max_tokens: 1 }), { code: "queue_full" });
    assert.ok(Number(error.headers.get("retry-after")) >= 1, "no retry-after of 1 s or more");
  }));

check("the client's own retries succeed", () =>
  occupied(async (leave) => {
    let refused = 0;
    const watching = async (...request) => {
      const response = await fetch(...request);
      if (response.status === 429) {
        refused += 1;
        leave();
      }
      return response;
    };
    const patient = client(SLOW, { maxRetries: 8, fetch: watching });
    const answer = await patient.completions.create({ model: MODEL, prompt: "1+1=", max_tokens: 1 });
    assert.ok(refused >= 1, "no retry was needed");
    assert.equal(answer.usage.completion_tokens, 1);
  }));

check("a timeout is a timeout error", async () => {
  await fails(OpenAI.APIConnectionTimeoutError, () => long({ stream: false }, { timeout: 300 }));
  await awaitIdle();
});

check("a stream that is left frees its slot", async () => {
  for await (const _ of await long()) break;
  await awaitIdle();
});

check("a stream that is aborted frees its slot", async () => {
  const stream = await long();
  let chunks = 0;
  for await (const _ of stream) {
    chunks += 1;
    if (chunks === 2) stream.controller.abort();
  }
  assert.ok(chunks < 500, `all ${chunks} chunks came`);
  await awaitIdle();
});

check("a call that is aborted frees its slot", async () => {
  const abort = new AbortController();
  const call = fails(OpenAI.APIUserAbortError, () => long({ stream: false }, { signal: abort.signal }));
  await awaitMetric("vllm:num_requests_running", 1);
  abort.abort();
  await call;
  await awaitIdle();
});

check("a server that is gone is a connection error", async () => {
  const error = await fails(OpenAI.APIConnectionError, () => client(GONE).models.list());
  assert.ok(!(error instanceof OpenAI.APIConnectionTimeoutError), "it is a timeout");
});

async function main() {
  let failed = 0;
  for (const [name, run] of CHECKS) {
    try {
      await run();
      console.log(`ok ${name}`);
    } catch (error) {
      // One broken check must not hide the others.
      failed += 1;
      console.log(`FAIL ${name}: ${error.name}: ${error.message}`);
    }
  }
  console.log(`${CHECKS.length - failed} of ${CHECKS.length} checks hold, openai ${VERSION}`);
  process.exitCode = failed > 0 ? 1 : 0;
}

main();
