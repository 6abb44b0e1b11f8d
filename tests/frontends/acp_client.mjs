// A client of `alhena --acp` by the official TypeScript package: plays one conversation with every
// method and prints its record as JSON. Arguments: the command, the directory of the session, a
// directory whose node_modules has the package.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [command, cwd, modules] = process.argv.slice(2);
const found = createRequire(join(modules, "x.js")).resolve("@agentclientprotocol/sdk/unstable");
const acp = await import(pathToFileURL(found).href);
const { agent, client } = acp.methods;

const record = { asked: [], updates: [], results: [] };
const files = new Map([[join(cwd, "a.txt"), "unsaved\n"]]);
let began;
const begun = new Promise((resolve) => (began = resolve));

function answer(method, result) {
  return ({ params }) => {
    record.asked.push(method);
    return typeof result === "function" ? result(params) : result;
  };
}

const app = acp
  .client({ name: "test" })
  .onNotification(client.session.update, ({ params: { update } }) => {
    record.updates.push(update.sessionUpdate);
    if (update.content?.text === "begun") began();
  })
  .onRequest(client.session.requestPermission, answer("permission", ({ options }) => {
    const { optionId } = options.find((each) => each.kind === "allow_once");
    return { outcome: { outcome: "selected", optionId } };
  }))
  .onRequest(client.elicitation.create, answer("elicitation", {
    action: "accept", content: { 0: "SQLite" },
  }))
  .onRequest(client.fs.readTextFile, answer("read", ({ path }) => ({ content: files.get(path) ?? "" })))
  .onRequest(client.fs.writeTextFile, answer("write", ({ path, content }) => {
    files.set(path, content);
    return {};
  }))
  .onRequest(client.terminal.create, answer("create", { terminalId: "t1" }))
  .onRequest(client.terminal.waitForExit, answer("wait", { exitCode: 0 }))
  .onRequest(client.terminal.output, answer("output", { output: "from the editor", truncated: false }))
  .onRequest(client.terminal.release, answer("release", {}));

const child = spawn(command, ["--acp"], { cwd, stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));

await app.connectWith(stream, async (context) => {
  const say = (sessionId, ...prompt) => context.request(agent.session.prompt, { sessionId, prompt });
  const hello = { type: "text", text: "hello" };
  const where = { cwd, mcpServers: [] };
  const results = record.results;

  const initialized = await context.request(agent.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: {
      fs: { readTextFile: true, writeTextFile: true },
      terminal: true,
      elicitation: { form: {} },
    },
  });
  results.push(initialized.protocolVersion);
  await context.request(agent.authenticate, { methodId: initialized.authMethods[0].id });
  const { sessionId, modes } = await context.request(agent.session.new, where);
  results.push(modes.currentModeId);
  await context.request(agent.session.setMode, { sessionId, modeId: "plan" });
  await context.request(agent.session.setMode, { sessionId, modeId: "default" });
  const { configOptions } = await context.request(agent.session.setConfigOption, {
    sessionId, configId: "model", value: "gemini-2.5-flash",
  });
  results.push(configOptions[0].currentValue);

  const uri = pathToFileURL(join(cwd, "a.txt")).href;
  const prompted = await say(
    sessionId,
    hello,
    { type: "image", data: "AAAA", mimeType: "image/png" },
    { type: "resource", resource: { uri: "file:///b.txt", text: "beta" } },
    { type: "resource_link", name: "a.txt", uri },
  );
  results.push(prompted.stopReason);

  const running = say(sessionId, hello);
  await begun;
  await context.notify(agent.session.cancel, { sessionId });
  results.push((await running).stopReason);

  const { sessions } = await context.request(agent.session.list, { cwd });
  results.push(sessions.length);
  await context.request(agent.session.close, { sessionId });
  await context.request(agent.session.load, { sessionId, ...where });
  await context.request(agent.session.resume, { sessionId, ...where });
  const fork = await context.request(agent.session.fork, { sessionId, ...where });
  results.push((await say(fork.sessionId, hello)).stopReason);
  try {
    await context.request(agent.session.load, { sessionId: "gone", ...where });
  } catch (error) {
    results.push(error.code);
  }
});
child.stdin.end();
const code = await new Promise((resolve) => child.on("exit", resolve));
console.log(JSON.stringify({ ...record, file: files.get(join(cwd, "b.txt")), code }));
