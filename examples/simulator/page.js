// Sends requests to the server with the simulated instant of each, and draws what it answers. Nothing is decided here.

import { drawAll } from './timeline.js';

const $ = (id) => document.getElementById(id);
const FIELDS = ['limit', 'window', 'active', 'cooldown'];
const GCRA_FIELDS = ['burst', 'count', 'period'];
const ADDED = [[5, 1, 1, 0], [50, 5, 5, 15], [100, 10, 10, 30], [200, 15, 15, 30]];
const LOOK = 100; // A look at how things stand, every so many simulated milliseconds.
const BATCH = 500; // The most steps in one message.
const KEPT = 150_000; // What is older than this, in simulated milliseconds, is no longer drawn.
const LOGGED = 60;
const HOLD = 120; // A held button asks again after so many milliseconds.

const calm = matchMedia('(prefers-reduced-motion: reduce)');
let config = { tiers: [], gcra: [] };
let sim = null; // The simulation that runs: a new object for each, so that late answers are known.
let lanes = [];
let patterns = [];

function fresh(id) {
  return {
    id, t: 0, running: false, busy: false, finish: false, queue: [], pattern: [], played: 0, nextLook: 0, lastAsk: 0,
    samples: [], asks: [], periods: config.tiers.map(() => new Map()), granted: 0, rejected: 0, gcraGranted: 0,
    gcraRejected: 0, byTier: config.tiers.map(() => 0), latest: null,
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
    $('error').hidden = true;
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
      if (run === sim) take(seen);
    }
    if (run === sim && run.finish) finish(run);
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
  const isPlayed = one.played === one.pattern.length;
  if (isPlayed && document.body.dataset.state === 'playing') setState('running');
  if (isPlayed && one.latest?.settled && one.latest.at > one.lastAsk + 1500) {
    one.running = false;
    setState('idle');
  }
}

async function play() {
  const pattern = patterns.find(({ id }) => id === $('pattern').value);
  if (!pattern || !(await start(query()))) return;
  sim.pattern = pattern.at;
  if (speed() < Infinity) return run(sim);
  sim.t = pattern.at.at(-1) + 1000;
  sim.finish = true;
  setState('playing');
  advance(sim, sim.t);
  flush(sim);
}

function finish(one) {
  one.finish = false;
  one.isWhole = true;
  setState('idle');
  draw();
}

function speed() {
  const value = document.querySelector('input[name="speed"]:checked').value;
  if (value !== 'all') return Number(value);
  return sim?.running ? 1 : Infinity;
}

function setState(state) {
  document.body.dataset.state = state;
  $('last').ariaLive = state === 'playing' ? 'off' : 'polite';
  $('pause').textContent = state === 'paused' ? 'Go on' : 'Pause';
  $('pause').disabled = !['playing', 'running', 'paused'].includes(state);
}

// --- What the server has answered.

function take(seen) {
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
  sim.asks.push({ at, granted: decision.granted, tier: decision.tier, gcra: decision.gcra_granted });
  sim[decision.granted ? 'granted' : 'rejected'] += 1;
  sim[decision.gcra_granted ? 'gcraGranted' : 'gcraRejected'] += 1;
  for (const [tier, units] of decision.split) sim.byTier[tier] += units;
  $('last').textContent = `At ${seconds(at, 3)}: ${sentence(decision)}. GCRA: ${gcraSentence(decision)}.`;
  const line = document.createElement('li');
  const mark = element('b', decision.granted ? 'G' : 'R', decision.granted ? 'yes' : 'no');
  mark.title = decision.granted ? 'granted' : 'rejected';
  const other = element('span', `GCRA ${gcraSentence(decision)}`, 'other');
  line.append(mark, element('time', seconds(at, 3)), element('span', sentence(decision)), other);
  $('log').prepend(line);
  while ($('log').children.length > LOGGED) $('log').lastChild.remove();
}

function sentence({ granted, tier, note, wait_us: wait }) {
  if (granted) return `granted by tier ${tier}${note && `: ${note}`}`;
  const later = wait === null ? 'it never will be' : `granted in ${seconds(Math.ceil(wait / 1000), 3)}`;
  return `rejected, ${note}; ${later}`;
}

function gcraSentence({ gcra_granted: granted, gcra_wait_us: wait }) {
  return granted ? 'granted' : `rejected, granted in ${seconds(Math.ceil(wait / 1000), 3)}`;
}

function showState() {
  const { latest } = sim;
  $('granted').textContent = sim.granted;
  $('rejected').textContent = sim.rejected;
  $('gcra-granted').textContent = sim.gcraGranted;
  $('gcra-rejected').textContent = sim.gcraRejected;
  $('level').textContent = `${latest.level} of ${config.gcra[0]}`;
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

function query(tiers = config.tiers, gcra = config.gcra) {
  return `?tiers=${tiers.flat().join()}&gcra=${gcra.join()}`;
}

function showConfig() {
  const { tiers, gcra } = config;
  history.replaceState(null, '', query());
  $('address').textContent = query();
  for (const link of document.querySelectorAll('.presets a')) {
    if (link.getAttribute('href') === query()) link.ariaCurrent = 'true';
    else link.removeAttribute('aria-current');
  }
  document.querySelector(`input[name="count"][value="${tiers.length}"]`).checked = true;
  const names = tiers.map((_, i) => `Tier ${i}`);
  const isSame = $('rows').children.length === tiers.length + 1;
  if (!isSame) {
    $('rows').replaceChildren(...names.map((name, i) => row(name, `tier-${i}`, FIELDS)), row('GCRA', 'gcra', GCRA_FIELDS));
  }
  tiers.forEach((tier, i) => FIELDS.forEach((field, j) => setField(`tier-${i}-${field}`, tier[j])));
  GCRA_FIELDS.forEach((field, j) => setField(`gcra-${field}`, gcra[j]));
  $('gcra-rate').textContent = `${gcra[1]} per ${gcra[2]} s, burst ${gcra[0]}`;
  $('last').textContent = 'No request yet.';
  $('log').replaceChildren();
  showLanes();
}

function setField(id, value) {
  if (Number($(id).value) !== value || $(id).value === '') $(id).value = value;
}

function row(name, id, fields) {
  const line = element('div', '', 'row');
  line.append(element('h3', name));
  for (const field of fields) {
    const isCount = ['limit', 'burst', 'count'].includes(field);
    const label = element('label', isCount ? field : `${field}, s`);
    const input = document.createElement('input');
    Object.assign(input, { type: 'number', id: `${id}-${field}`, min: 0, max: 999_999_999, step: 1, required: true });
    input.ariaLabel = `${name} ${field}${isCount ? '' : ' in seconds'}`;
    label.append(input);
    line.append(label);
  }
  return line;
}

// Simulates what the fields say.
function change() {
  const wrong = [...$('rows').querySelectorAll('input')].find((input) => !input.checkValidity());
  if (wrong) {
    start.latest = null;
    return fail(new Error(`${wrong.ariaLabel}: ${wrong.validationMessage}`));
  }
  const read = (id, fields) => fields.map((field) => Number($(`${id}-${field}`).value));
  const tiers = config.tiers.map((_, i) => read(`tier-${i}`, FIELDS));
  return start(query(tiers, read('gcra', GCRA_FIELDS)));
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
    const about = element('div', '', 'about');
    const name = element('h3', '');
    name.append(element('i', ''), `Tier ${i} `, element('span', '', 'phase'));
    const used = element('p', '');
    used.append(element('b', '0', 'used'), ` of ${limit} in ${window} s`);
    const granted = element('p', '');
    const total = element('b', '0');
    total.id = `granted-tier-${i}`;
    granted.append(total, ' granted');
    about.append(name, used, granted);
    const canvas = document.createElement('canvas');
    canvas.role = 'img';
    canvas.ariaLabel = `Tier ${i} over time: units in its window, active and cooldown periods`;
    node.append(about, canvas);
    return { node, canvas };
  });
  $('tiers').replaceChildren(...lanes.map(({ node }) => node).reverse());
}

function draw() {
  if (!sim) return;
  $('clock').textContent = seconds(sim.t, 1);
  const tiers = lanes.map(({ canvas }) => canvas);
  drawAll(sim, config, { tiers, asked: $('asked'), levels: $('levels'), gcraAsked: $('gcra-asked') });
}

// --- What people do.

let held = null;

function hold() {
  if (held !== null) return;
  ask();
  held = setInterval(ask, HOLD);
  $('ask').classList.add('held');
}

function release() {
  clearInterval(held);
  held = null;
  $('ask').classList.remove('held');
}

$('ask').addEventListener('pointerdown', (event) => event.button === 0 && hold());
for (const name of ['pointerup', 'pointercancel', 'blur']) addEventListener(name, release);
// Without a pointer and without a key, as assistive technology does it.
$('ask').addEventListener('click', (event) => event.detail === 0 && ask());
addEventListener('keydown', (event) => {
  const isOther = event.target.closest('input, select, textarea, button:not(#ask)');
  const isAsk = event.code === 'Space' || (event.code === 'Enter' && event.target === $('ask'));
  if (!isAsk || isOther || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  if (!event.repeat) hold();
});
addEventListener('keyup', (event) => ['Space', 'Enter'].includes(event.code) && release());

$('play').addEventListener('click', play);
$('reset').addEventListener('click', () => start(query()));
$('pause').addEventListener('click', () => {
  if (!sim) return;
  if (!sim.running) return run(sim);
  sim.running = false;
  setState('paused');
});
$('settings').addEventListener('submit', (event) => event.preventDefault());
$('rows').addEventListener('input', change);
$('count').addEventListener('change', (event) => {
  const count = Number(event.target.value);
  start(query([...config.tiers, ...ADDED.slice(config.tiers.length)].slice(0, count)));
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
addEventListener('pageshow', (event) => event.persisted && start(query()));
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);

patterns = await call('GET', 'patterns').catch((error) => (fail(error), []));
$('pattern').append(...patterns.map(({ id, name }) => Object.assign(element('option', name), { value: id })));
start(location.search);
