// Makes docs/pictures: what a user sees of a planted regression, and main's history. Needs Node, npm, Chromium, a font
// with emoji (Debian: fonts-noto-color-emoji) and a built gate.
//   node scripts/pictures.mjs [GATE]     GATE: target/release/gate
// A session is measured for it: on a busy machine its verdict may be another one, and the script ends with an error.
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const root = resolve(dirname(fileURLToPath(import.meta.url)), "..");
const gate = resolve(process.argv[2] ?? join(root, "target/release/gate"));
const out = join(root, "docs/pictures");
if (!/emoji/i.test(spawnSync("fc-list", { encoding: "utf8" }).stdout ?? "")) throw new Error("no font has emoji: install fonts-noto-color-emoji");
const packages = join(root, "target/pictures");
execFileSync("npm", ["install", "--ignore-scripts", "--no-save", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error",
  "--prefix", packages, "puppeteer-core@24.43.1", "marked@16.4.1", "github-markdown-css@5.8.1"], { stdio: "inherit" });
const require = createRequire(join(packages, "node_modules/"));
const puppeteer = require("puppeteer-core");
const { marked } = require("marked");
const markdownStyle = readFileSync(require.resolve("github-markdown-css/github-markdown-light.css"), "utf8");

// This repository's gates on a built engine, which both arms start: one with a planted delay.
const project = mkdtempSync(join(tmpdir(), "infergate-pictures-"));
process.on("exit", () => rmSync(project, { recursive: true, force: true }));
cpSync(join(root, "gates"), join(project, "gates"), { recursive: true });
const config = join(project, "gates/gate.toml");
const [before, after] = readFileSync(config, "utf8").split("[engine.build]");
writeFileSync(config, (before + after.slice(after.indexOf("# Numbers of blocks"))).replaceAll("{artifact}", gate));
const run = (...args) => spawnSync(gate, args, { cwd: project, encoding: "utf8" });
const measured = run("check", "--profile", "quick", "--same-build", "--head-arg=--fault", "--head-arg=decode-delay=15%", "--out", "fail");
if (measured.status !== 1) throw new Error(`the planted delay was not found:\n${measured.stdout}${measured.stderr}`);

// A delay that nobody sees passes; and checks that end without a verdict. Two looks and a narrow ceiling leave a small delay open; no
// token can be faster than a floor of a whole millisecond; and a signal comes after the first block.
const whole = readFileSync(config, "utf8");
const tpot = join(project, "gates/tpot.toml");
const gateFile = readFileSync(tpot, "utf8");
const changed = (text, from, to) => {
  if (!text.includes(from)) throw new Error(`there is no ${from} in gates/`);
  return text.replaceAll(from, to);
};
const expect = (status, ...args) => {
  const ended = run("check", "--profile", "quick", "--same-build", "--gate", "tpot", ...args);
  if (ended.status !== status) throw new Error(`not ${status} but ${ended.status}:\n${ended.stdout}${ended.stderr}`);
};
expect(0, "--head-arg=--fault", "--head-arg=decode-delay=0.01us", "--out", "pass");
writeFileSync(config, changed(whole, "looks = [3, 4, 5, 6, 7, 8, 10]", "looks = [3, 4]"));
writeFileSync(tpot, changed(changed(gateFile, 'quick = "5 %"', 'quick = "2 %"'), 'quick = "5.0 %"', 'quick = "2 %"'));
expect(3, "--head-arg=--fault", "--head-arg=decode-delay=1.5%", "--out", "inconclusive");
writeFileSync(tpot, gateFile);
writeFileSync(config, changed(whole, 'model = "tiny-qwen3"', 'model = "tiny-qwen3"\nplausible = { tpot_floor = "1 ms", prefill_floor = "1 µs/token" }'));
expect(4, "--out", "invalid");
writeFileSync(config, whole);
await new Promise((done, failed) => {
  const child = spawn(gate, ["check", "--profile", "quick", "--same-build", "--out", "interrupted"], { cwd: project });
  child.stderr.on("data", (said) => { if (/^block 1:/m.test(said)) child.kill("SIGINT"); });
  child.stdout.resume();
  child.on("exit", (status) => status === 130 ? done() : failed(new Error(`not interrupted: ${status}`)));
});

// Main's nights beside an anchor: two steps for the worse, one for the better.
const series = join(project, ".gate/baseline/series");
mkdirSync(series, { recursive: true });
let seed = 7;
const random = () => (seed = (seed * 16807) % 2147483647) / 2147483647;
const normal = () => Math.sqrt(-2 * Math.log(random())) * Math.cos(2 * Math.PI * random());
const nights = 120;
for (let night = 0; night < nights; night++) {
  const level = (night < 40 ? 1 : 1.012) * (night < 80 ? 1 : 1.03) * (night < 100 ? 1 : 0.985);
  const launches = (factor) => Array.from({ length: 4 }, () => 20 * factor * Math.exp(.007 * normal()));
  const values = (factor) => ({ "tpot/regression": launches(factor), "tpot/e2e": launches(factor) });
  writeFileSync(join(series, `${String(night).padStart(3, "0")}.json`), JSON.stringify({
    format: "infergate-baseline/2", session: `night-${String(night).padStart(3, "0")}`,
    created: new Date(Date.now() - (nights - night) * 86400e3).toISOString().replace(/\.\d+Z/, "Z"),
    commit: (0x9f8e7d6c + night * 7919).toString(16).padStart(12, "c") + "a".repeat(28), profile: "full", gate: "tpot",
    fingerprint: "Xeon 8480 | 16 cores | 128 GiB | 6.8.0 | NVIDIA H100 (driver 570.86)", model: "tiny-qwen3", gate_hash: "abc",
    engine: ["serve"], values: values(level), anchor: { name: "v0.3.0", commit: "4f1c2d3e5a6b7c8d", values: values(1) },
  }));
}
run("history", "--profile", "full", "--site", "site");

// What a terminal of so many columns shows, as HTML.
const terminal = (columns, directory) => {
  const { stdout: shown } = spawnSync("script", ["-qec", `stty cols ${columns} rows 60 && '${gate}' report ${directory}`, "/dev/null"],
    { cwd: project, encoding: "utf8", env: { ...process.env, TERM: "xterm-256color" }, stdio: ["ignore", "pipe", "inherit"] });
  const colours = { 31: "#ff7b72", 32: "#3fb950", 33: "#d29922", 35: "#bc8cff", 36: "#56d4dd" };
  const escape = (text) => text.replace(/[&<>]/g, (c) => `&#${c.charCodeAt(0)};`);
  let html = "", style = "";
  for (const part of shown.replaceAll("\r", "").split(/(\x1b\[[\d;]*m)/)) {
    const codes = /^\x1b\[([\d;]*)m$/.exec(part);
    if (!codes) { html += `<span style="${style}">${escape(part)}</span>`; continue; }
    for (const code of codes[1].split(";").map(Number)) {
      if (code === 0) style = "";
      if (code === 1) style += "font-weight:700;";
      if (colours[code]) style += `color:${colours[code]};`;
    }
  }
  return `<style>body{margin:0;background:#0d1117;color:#e6edf3}pre{font:14px/1.35 "DejaVu Sans Mono",monospace;margin:0;padding:16px;display:inline-block}</style><pre id=it>${html.replaceAll(project, "/home/ada/engine")}</pre>`;
};
const comment = () => `<style>${markdownStyle} body{margin:0}.markdown-body{padding:16px;width:900px}</style>
<div class="markdown-body" id=it>${marked.parse(run("report", "fail", "--format", "comment").stdout)}</div>`;

const executablePath = execFileSync("sh", ["-c", "command -v chromium || command -v google-chrome"], { encoding: "utf8" }).trim();
const browser = await puppeteer.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
try {
  const page = await browser.newPage();
  const shot = async (name, width, height) => {
    await page.setViewport({ width, height });
    await page.evaluate(() => new Promise((done) => setTimeout(done, 400)));
    const element = await page.$("#it");
    await (element ?? page).screenshot({ path: join(out, `${name}.png`) });
    console.log(`docs/pictures/${name}.png`);
  };
  for (const directory of ["pass", "fail", "inconclusive", "invalid", "interrupted"]) {
    for (const [columns, name] of [[80, `terminal-${directory}`], [140, `terminal-${directory}-140`]]) {
      await page.setContent(terminal(columns, directory));
      await shot(name, 1400, 900);
    }
  }
  await page.setContent(comment());
  await shot("comment", 960, 900);
  await page.goto(`file://${project}/fail/report.html`);
  await shot("report", 1200, 900);
  await shot("report-phone", 390, 844);
  await page.goto(`file://${project}/site/gate-tpot.html`);
  await shot("history", 1200, 620);
} finally {
  await browser.close();
}
