// One conversation of the AI SDK with a tool, through the provider named by the first argument.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const require = createRequire(process.env.NPM + "/package.json");
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { streamText, tool, stepCountIs } = await load("ai");
const { z } = await load("zod");
const url = process.env.GATEWAY;
const apiKey = "unused";
const models = {
  openai: async () => (await load("@ai-sdk/openai")).createOpenAI({ baseURL: `${url}/v1`, apiKey })("flash"),
  "openai-compatible": async () =>
    (await load("@ai-sdk/openai-compatible")).createOpenAICompatible({ name: "alhena", baseURL: `${url}/v1`, apiKey })(
      "flash",
    ),
  anthropic: async () =>
    (await load("@ai-sdk/anthropic")).createAnthropic({ baseURL: `${url}/v1`, apiKey })("flash"),
  google: async () =>
    (await load("@ai-sdk/google")).createGoogleGenerativeAI({ baseURL: `${url}/v1beta`, apiKey })("gemini-3.8-flash"),
};
const result = streamText({
  model: await models[process.argv[2]](),
  prompt: "Read one.txt and two.txt (kestrel), and say the words in them.",
  stopWhen: stepCountIs(5),
  tools: {
    read_word: tool({
      description: "Reads a file.",
      inputSchema: z.object({ path: z.string() }),
      execute: async ({ path }) => readFileSync(path, "utf8"),
    }),
  },
});
console.log(await result.text);
