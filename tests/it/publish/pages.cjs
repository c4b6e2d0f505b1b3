// Opens pages at three widths, and with a dark colour scheme. Arguments: the packages' folder, the browser, the pages.
"use strict";
const [, , packages, browser, ...pages] = process.argv;
const puppeteer = require(require.resolve("puppeteer-core", { paths: [packages] }));
const { execFileSync } = require("node:child_process");
const assert = require("node:assert");

// Where in the path a name leads, since a browser is started by its path.
const executablePath = execFileSync("sh", ["-c", 'command -v "$0"', browser]).toString().trim();

// Unfolds all gates and scrolls through, so that every drawing is seen.
const seeAll = () => new Promise((done) => {
  document.querySelectorAll("details").forEach((it) => { it.open = true; });
  let y = 0;
  const step = () => {
    scrollTo(0, y);
    y += innerHeight / 2;
    if (y > document.body.scrollHeight + innerHeight) { scrollTo(0, 0); done(); } else requestAnimationFrame(step);
  };
  step();
});

const look = async (page, path, width, scheme) => {
  const wrong = [];
  page.on("console", (message) => { if (message.type() !== "log") wrong.push(`console: ${message.text()}`); });
  page.on("pageerror", (error) => wrong.push(`error: ${error.message}`));
  page.on("dialog", async (dialog) => { wrong.push(`dialog: ${dialog.message()}`); await dialog.dismiss(); });
  page.on("request", (request) => {
    if (!/^(file|data|blob):/.test(request.url())) wrong.push(`request: ${request.url()}`);
  });
  await page.setViewport({ width, height: 900 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  const begun = performance.now();
  await page.goto(`file://${path}`, { waitUntil: "load" });
  const opened = performance.now() - begun;
  await page.screenshot({ path: path.replace(/html$/, `${width}-${scheme}.png`) });
  await page.evaluate(seeAll);
  await page.waitForFunction(() => [...document.querySelectorAll("figure[data-plot]")]
    .every((figure) => figure.querySelector(".uplot canvas")));
  const seen = await page.evaluate(() => ({
    drawings: document.querySelectorAll("figure[data-plot]").length,
    left: document.querySelectorAll("figure[data-plot] > svg").length,
    width: document.documentElement.scrollWidth,
    markup: document.querySelectorAll("main img, main script").length,
    scripts: document.scripts.length,
    isSheet: document.querySelectorAll("main.sheet figure svg").length > 0,
  }));
  assert.deepStrictEqual(wrong, [], path);
  assert.ok(seen.width <= width, `${path} is ${seen.width} px wide in a window of ${width}`);
  assert.strictEqual(seen.markup, 0, path);
  // The numbers, uPlot and ours; a command's page has none.
  assert.strictEqual(seen.scripts, seen.isSheet ? 0 : 3, path);
  assert.strictEqual(seen.left, 0, path);
  return { opened, drawings: seen.drawings };
};

// A cursor shows values, a drag zooms in, a click on an arm's name hides it.
const use = async (page) => {
  const plot = await page.$('figure[data-plot="launches"] .u-over');
  await plot.scrollIntoView();
  const box = await plot.boundingBox();
  const state = () => page.$eval('figure[data-plot="launches"] .uplot', (it) => ({
    legend: it.querySelector(".u-legend").textContent,
    picture: it.querySelector("canvas").toDataURL(),
    hidden: it.querySelectorAll(".u-legend .u-off").length,
  }));
  const before = await state();
  const y = box.y + box.height / 2;
  await page.mouse.move(box.x + box.width * .3, y);
  await page.mouse.move(box.x + box.width * .31, y);
  const over = await state();
  assert.notStrictEqual(over.legend, before.legend, "the cursor shows nothing");
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * .7, y, { steps: 4 });
  await page.mouse.up();
  await page.waitForFunction((then) => document.querySelector('figure[data-plot="launches"] canvas').toDataURL() !== then,
    {}, before.picture);
  await page.click('figure[data-plot="launches"] .u-legend tr:nth-child(2) th');
  assert.strictEqual((await state()).hidden, 1, "an arm cannot be hidden");
};

(async () => {
  const chrome = await puppeteer.launch({ executablePath, args: ["--no-sandbox", "--disable-gpu"] });
  try {
    for (const path of pages) {
      for (const [width, scheme] of [[1440, "light"], [768, "light"], [360, "light"], [1440, "dark"]]) {
        const page = await chrome.newPage();
        const { opened, drawings } = await look(page, path, width, scheme);
        if (drawings > 0 && width === 1440) await use(page);
        console.log(`ok ${path.split("/").pop()} ${width} ${scheme}: ${drawings} drawings, opened in ${Math.round(opened)} ms`);
        await page.close();
      }
    }
  } finally {
    await chrome.close();
  }
})().catch((error) => { console.error(error); process.exitCode = 1; });
