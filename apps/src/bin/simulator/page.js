// Sends requests to the server with the simulated instant of each, and draws what it answers. Nothing is decided here.

import { PLAIN, card, each } from './plain.js';
import { mistake, queryOf, read, show, withTiers } from './settings.js';
import { drawAll } from './timeline.js';

const $ = (id) => document.getElementById(id);
const LOOK = 100; // A look at how things stand, every so many simulated milliseconds.
const BATCH = 500; // The most steps in one message.
const KEPT = 150_000; // What is older than this, in simulated milliseconds, is no longer drawn.
const LOGGED = 60;
const STATES = { starting: '', idle: 'waits for a request', running: 'running', playing: 'playing', paused: 'paused', failed: 'stopped' };
const HOLD_FIRST = 400; // A held button asks again after so many milliseconds,
const HOLD = 120; // and then again.

const calm = matchMedia('(prefers-reduced-motion: reduce)');
let config = { tiers: [] };
let sim = null; // The simulation that runs: a new object for each, so that late answers are known.
let lanes = [];
let patterns = [];

function fresh(id) {
  return {
    id, t: 0, running: false, busy: false, finish: false, queue: [], pattern: [], played: 0, nextLook: 0, lastAsk: 0,
    samples: [], asks: [], periods: config.tiers.map(() => new Map()), granted: 0, rejected: 0,
    plain: each(() => ({ granted: 0, rejected: 0 })), byTier: config.tiers.map(() => 0), latest: null,
  };
}

// --- The server.

async function call(method, path, body) {
  const headers = { 'content-type': 'application/json' };
  const response = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
  const answer = await response.json().catch(() => ({ error: `the server answers ${response.status}` }));
  if (!response.ok) throw Object.assign(new Error(answer.error), { config: answer.config });
  return answer;
}

function fail(error) {
  $('error').textContent = error.message;
  $('error').hidden = false;
  setState('failed');
}

// Starts a simulation of what a query says; returns whether it could.
async function start(query) {
  const attempt = (start.latest = {});
  stop();
  try {
    const started = await call('POST', `simulations${query}`);
    if (start.latest !== attempt) return forget(started.id);
    config = started.config;
    sim = fresh(started.id);
    showConfig();
    take([started.seen]);
    setState('idle');
    return true;
  } catch (error) {
    if (start.latest !== attempt) return false;
    if (error.config) {
      config = error.config;
      showConfig();
    }
    fail(error);
    return false;
  }
}

function stop() {
  if (sim) forget(sim.id);
  sim = null;
}

// Tells the server, which keeps only so many.
function forget(id) {
  fetch(`simulations/${id}`, { method: 'DELETE', keepalive: true }).catch(() => {});
  return false;
}

// Sends what is queued, one message after another, so that the order is kept.
async function flush(run) {
  if (run.busy || run.queue.length === 0) return;
  run.busy = true;
  try {
    while (run === sim && run.queue.length > 0) {
      const steps = run.queue.splice(0, BATCH);
      const seen = await call('POST', `simulations/${run.id}/steps`, { steps });
      if (run !== sim) return;
      take(seen);
      endPlay(run);
    }
  } catch (error) {
    run.running = false;
    if (run === sim) fail(error);
  }
  run.busy = false;
}

// --- Time and requests.

// Queues the looks and the pattern's requests up to an instant, in order.
function advance(run, until) {
  for (;;) {
    const ask = run.pattern[run.played] ?? Infinity;
    const at = Math.min(ask, run.nextLook);
    if (at > until) return;
    run.queue.push({ at, units: ask === at ? 1 : 0 });
    if (ask === at) run.lastAsk = run.pattern[run.played++];
    else run.nextLook += LOOK;
  }
}

function ask() {
  if (!sim) return;
  advance(sim, sim.t);
  sim.lastAsk = Math.floor(sim.t);
  sim.queue.push({ at: sim.lastAsk, units: 1 });
  run(sim);
  flush(sim);
}

function run(one) {
  if (one.running) return;
  one.running = true;
  one.isWhole = false;
  setState(one.played < one.pattern.length ? 'playing' : 'running');
  let before = performance.now();
  const frame = (time) => {
    if (one !== sim || !one.running) return;
    one.t += Math.min(Math.max(time - before, 0), 250) * speed();
    before = time;
    advance(one, one.t);
    flush(one);
    rest(one);
    if (calm.matches) setTimeout(() => requestAnimationFrame(frame), 400);
    else requestAnimationFrame(frame);
    draw();
  };
  requestAnimationFrame(frame);
}

// Stops the clock once it is as if nothing had been asked, and nothing is to come.
function rest(one) {
  if (one.played === one.pattern.length && one.latest?.settled && one.latest.at > one.lastAsk + 1500) {
    one.running = false;
    setState('idle');
  }
}

async function play() {
  const pattern = patterns.find(({ id }) => id === $('pattern').value);
  if (!pattern) return;
  setState('starting');
  if (!(await start(queryOf(config)))) return;
  sim.pattern = pattern.at;
  if (speed() < Infinity) return run(sim);
  sim.t = pattern.at.at(-1) + 1000;
  sim.finish = true;
  setState('playing');
  advance(sim, sim.t);
  flush(sim);
}

// Sums up a pattern once all of it is decided.
function endPlay(one) {
  const isDecided = one.played === one.pattern.length && one.latest.at >= one.lastAsk;
  if (!isDecided || document.body.dataset.state !== 'playing') return;
  one.isWhole = one.finish;
  setState(one.finish ? 'idle' : 'running');
  const plain = PLAIN.map(({ id, subject }) => `${subject} ${one.plain[id].granted} and ${one.plain[id].rejected}`);
  $('last').textContent = `Played ${one.played} requests: the tiers have granted ${one.granted} and rejected ${one.rejected}, `
    + `${plain.join(', ')}.`;
  draw();
}

function speed() {
  const value = document.querySelector('input[name="speed"]:checked').value;
  if (value !== 'all') return Number(value);
  return sim?.running ? 1 : Infinity;
}

function setState(state) {
  document.body.dataset.state = state;
  $('state').textContent = STATES[state];
  $('last').ariaLive = state === 'playing' ? 'off' : 'polite';
  $('pause').textContent = state === 'paused' ? 'Go on' : 'Pause';
  $('pause').disabled = !['playing', 'running', 'paused'].includes(state);
}

// --- What the server has answered.

function take(seen) {
  $('error').hidden = true;
  for (const one of seen) {
    sim.samples.push(one);
    one.tiers.forEach((tier, i) => tier.entry !== null && sim.periods[i].set(tier.entry, tier));
    if (one.decision) count(one);
  }
  sim.latest = seen.at(-1);
  const from = sim.latest.at - KEPT;
  for (const list of [sim.samples, sim.asks]) {
    if (list[0]?.at < from - 10_000) list.splice(0, list.findIndex(({ at }) => at >= from));
  }
  for (const periods of sim.periods) {
    for (const [entry, { cooldown_until: end }] of periods) if (end < from) periods.delete(entry);
  }
  showState();
  if (!sim.running || calm.matches) draw();
}

function count({ at, decision }) {
  const { granted, tier, plain } = decision;
  sim.asks.push({ at, granted, tier, plain });
  sim[granted ? 'granted' : 'rejected'] += 1;
  for (const { id } of PLAIN) sim.plain[id][plain[id].granted ? 'granted' : 'rejected'] += 1;
  for (const [by, units] of decision.split) sim.byTier[by] += units;
  const others = PLAIN.map(({ id, name }) => `${name}: ${plainSentence(plain[id], id)}.`);
  $('last').textContent = `At ${seconds(at, 3)}: ${sentence(decision)}. ${others.join(' ')}`;
  const line = document.createElement('li');
  const why = element('span', granted ? sentence(decision).replace('granted by ', '') : decision.note);
  const marks = PLAIN.map(({ id, name }) => mark(plain[id].granted, `${name}: `));
  line.append(mark(granted, 'tiers: '), element('time', seconds(at, 3)), why, ...marks);
  $('log').prepend(line);
  while ($('log').children.length > LOGGED) $('log').lastChild.remove();
}

function mark(isGranted, whose) {
  const box = element('b', isGranted ? 'G' : 'R', isGranted ? 'yes' : 'no');
  box.title = `${whose}${isGranted ? 'granted' : 'rejected'}`;
  return box;
}

function sentence({ granted, tier, note, wait_us: wait }) {
  if (granted) return `granted by tier ${tier}${note && `: ${note}`}`;
  return `rejected, ${note}; ${later(wait)}`;
}

function plainSentence({ granted, wait_us: wait }, id) {
  if (granted) return 'granted';
  return `rejected, ${id === 'concurrent' ? 'granted once a permit is back' : later(wait)}`;
}

function later(wait) {
  return wait === null ? 'it never will be' : `granted in ${seconds(Math.ceil(wait / 1000), 3)}`;
}

function showState() {
  const { latest } = sim;
  $('granted').textContent = sim.granted;
  $('rejected').textContent = sim.rejected;
  for (const { id } of PLAIN) {
    $(`${id}-granted`).textContent = sim.plain[id].granted;
    $(`${id}-rejected`).textContent = sim.plain[id].rejected;
    $(`${id}-left`).textContent = `${latest.left[id]} of ${config[id][0]}`;
  }
  lanes.forEach(({ node }, i) => {
    const tier = latest.tiers[i];
    node.dataset.phase = tier.phase;
    node.dataset.shadowed = tier.shadowed;
    const phase = { inactive: 'inactive', active: 'active', cooldown: 'cooldown' }[tier.phase];
    node.querySelector('.phase').textContent = tier.shadowed ? 'shadowed' : phase;
    node.querySelector('.used').textContent = tier.used;
    $(`granted-tier-${i}`).textContent = sim.byTier[i];
  });
}

// --- The configuration.

function showConfig() {
  const query = queryOf(config);
  history.replaceState(null, '', query);
  $('address').textContent = query;
  for (const link of document.querySelectorAll('.presets a')) {
    if (link.getAttribute('href') === query) link.ariaCurrent = 'true';
    else link.removeAttribute('aria-current');
  }
  show(config);
  for (const { id, rate } of PLAIN) $(`${id}-rate`).textContent = rate(config[id]);
  $('last').textContent = 'No request yet.';
  for (const total of document.querySelectorAll('.totals dd')) total.textContent = 0;
  $('log').replaceChildren();
  showLanes();
}

// Simulates what the fields say.
function change() {
  const wrong = mistake();
  if (!wrong) return start(queryOf(read()));
  start.latest = null;
  stop();
  return fail(new Error(wrong));
}

function element(name, text, className = '') {
  const node = document.createElement(name);
  node.textContent = text;
  node.className = className;
  return node;
}

function seconds(ms, digits) {
  return `${(ms / 1000).toFixed(digits)} s`;
}

function showLanes() {
  lanes = config.tiers.map(([limit, window], i) => {
    const node = element('li', '', 'lane');
    node.dataset.tier = i;
    node.innerHTML = `<div class="about">
        <h3><i></i>Tier ${i} <span class="phase"></span></h3>
        <p><b class="used">0</b> of ${limit} in ${window} s</p><p><b id="granted-tier-${i}">0</b> granted</p>
      </div>
      <canvas role="img" aria-label="Tier ${i} over time: units in its window, active and cooldown periods"></canvas>`;
    return { node, canvas: node.querySelector('canvas') };
  });
  $('tiers').replaceChildren(...lanes.map(({ node }) => node).reverse());
}

function draw() {
  if (!sim) return;
  $('clock').textContent = seconds(sim.t, 1);
  const tiers = lanes.map(({ canvas }) => canvas);
  const plain = each(({ id }) => ({ levels: $(`${id}-levels`), asked: $(`${id}-asked`) }));
  drawAll(sim, config, { tiers, asked: $('asked'), plain });
}

// --- What people do.

let held = null;

function hold() {
  if (held !== null) return;
  ask();
  held = setTimeout(() => { held = setInterval(ask, HOLD); }, HOLD_FIRST);
  $('ask').classList.add('held');
}

function release() {
  clearTimeout(held);
  clearInterval(held);
  held = null;
  $('ask').classList.remove('held');
}

$('ask').addEventListener('pointerdown', (event) => event.button === 0 && hold());
for (const name of ['pointerup', 'pointercancel', 'blur']) addEventListener(name, release);
// Without a pointer and without a key, as assistive technology does it.
$('ask').addEventListener('click', (event) => event.detail === 0 && ask());
$('ask').addEventListener('contextmenu', (event) => event.preventDefault());
addEventListener('keydown', (event) => {
  const isOther = event.target.closest('input, select, textarea, button:not(#ask)');
  const isAsk = event.code === 'Space' || (event.code === 'Enter' && event.target === $('ask'));
  if (!isAsk || isOther || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  if (!event.repeat) hold();
});
addEventListener('keyup', (event) => ['Space', 'Enter'].includes(event.code) && release());

$('play').addEventListener('click', play);
$('reset').addEventListener('click', () => start(queryOf(config)));
$('pause').addEventListener('click', () => {
  if (!sim) return;
  if (!sim.running) return run(sim);
  sim.running = false;
  setState('paused');
});
$('settings').addEventListener('submit', (event) => event.preventDefault());
$('rows').addEventListener('input', change);
$('count').addEventListener('change', (event) => {
  start(queryOf(withTiers(config, Number(event.target.value))));
});
$('copy').addEventListener('click', async () => {
  await navigator.clipboard.writeText(location.href).catch(() => {});
  $('copy').textContent = 'Copied';
  setTimeout(() => { $('copy').textContent = 'Copy link'; }, 1500);
});
for (const link of document.querySelectorAll('.presets a')) {
  link.addEventListener('click', (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    start(link.getAttribute('href'));
  });
}
addEventListener('resize', draw);
addEventListener('pagehide', stop);
addEventListener('pageshow', (event) => event.persisted && start(queryOf(config)));
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);

$('plain').innerHTML = PLAIN.map(card).join('');
patterns = await call('GET', 'patterns').catch((error) => (fail(error), []));
$('pattern').append(...patterns.map(({ id, name }) => Object.assign(element('option', name), { value: id })));
start(location.search);
