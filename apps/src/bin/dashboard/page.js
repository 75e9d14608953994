// Asks the server for its figures every second, and draws them. Nothing is decided here.

import * as bucket from './bucket.js';
import { $, ago, duration, element, number, percent, showFacts } from './words.js';

const EVERY = 1000; // Milliseconds between two questions.
const SECONDS = 120; // How many seconds a chart shows.
const LATELY = 10; // The mean duration of calls is that of the last ten answers.

let token = sessionStorage.getItem('token');
let timer = null;
let isPaused = false;
let rows = new Map(); // The row of each limit.
let latest = null;
let stores = []; // What the last answers said about the store.

// --- The server.

async function call(method, path) {
  const sent = token;
  const response = await fetch(path, { method, headers: { authorization: `Bearer ${sent}` } });
  const answer = await response.json().catch(() => null);
  if (response.status === 401 && sent === token) leave('The server does not accept this token.');
  if (!response.ok) throw new Error(answer?.error?.message ?? `the server answers ${response.status}`);
  return answer;
}

async function refresh() {
  clearTimeout(timer);
  const attempt = (refresh.latest = {});
  try {
    const figures = await call('GET', `figures?ids=${$('show-ids').checked}`);
    // Another one may have been asked for meanwhile, with ids or without.
    if (attempt !== refresh.latest || token === null) return;
    show(figures);
    connection(isPaused ? 'paused' : 'live', isPaused ? '' : 'good');
    bucket.refreshShown();
  } catch {
    if (attempt === refresh.latest && token !== null) connection('no answer', 'bad');
  }
  if (attempt === refresh.latest && token !== null) wait();
}

function wait() {
  clearTimeout(timer);
  if (!isPaused && !document.hidden) timer = setTimeout(refresh, EVERY);
}

function connection(text, kind) {
  // Screen readers speak of changes only.
  if ($('connection').textContent !== text) $('connection').textContent = text;
  $('connection').dataset.kind = kind;
}

// --- Signing in and out.

async function enter() {
  $('gate-error').hidden = true;
  try {
    // No header takes other characters.
    if (!/^[\x21-\x7e]+$/.test(token)) throw new Error('a token has ASCII letters, digits and signs, without spaces');
    show(await call('GET', 'figures'));
    sessionStorage.setItem('token', token);
    $('token').value = '';
    open(true);
    connection('live', 'good');
    wait();
  } catch (error) {
    if (token !== null) leave(error.message);
  }
}

function leave(why = '') {
  token = null;
  sessionStorage.removeItem('token');
  clearTimeout(timer);
  $('show-ids').checked = false;
  $('clients').replaceChildren();
  bucket.forget();
  open(false);
  $('gate-error').textContent = why;
  $('gate-error').hidden = !why;
  $('token').focus();
}

function open(isOpen) {
  $('main').hidden = !isOpen;
  $('session').hidden = !isOpen;
  $('gate').hidden = isOpen;
  document.body.dataset.state = isOpen ? 'open' : 'locked';
  if (isOpen) draw();
}

// --- What the server has answered.

function show(figures) {
  latest = figures;
  stores = [...stores, figures.store].slice(-LATELY);
  showTotals(figures);
  showLimits(figures.limits);
  showClients(figures.denied);
  showStore(figures.store);
  bucket.showLimits(figures.limits.map(({ name }) => name));
  draw();
}

function sum(list, of) {
  return list.reduce((total, one) => total + of(one), 0);
}

function showTotals({ limits, waiting }) {
  const last = ({ seconds }) => seconds.at(-1) ?? [0, 0];
  $('allowed-now').textContent = number(sum(limits, (limit) => last(limit)[0]));
  $('denied-now').textContent = number(sum(limits, (limit) => last(limit)[1]));
  $('allowed').textContent = number(sum(limits, ({ allowed }) => allowed));
  $('denied').textContent = number(sum(limits, ({ denied }) => denied));
  const seconds = limits.flatMap((limit) => limit.seconds);
  const denied = sum(seconds, (second) => second[1]);
  $('denied-share').textContent = percent(denied, denied + sum(seconds, (second) => second[0]));
  $('waiting').textContent = number(waiting);
}

function showLimits(limits) {
  const names = limits.map(({ name }) => name);
  if ([...rows.keys()].join() !== names.join()) {
    rows = new Map(names.map((name) => [name, newRow(name)]));
    $('limits').replaceChildren(...[...rows.values()].map(({ node }) => node));
  }
  for (const limit of limits) {
    const { summary, extras, shadow, allowed, denied } = rows.get(limit.name);
    summary.textContent = limit.summary ?? 'only for clients with an override';
    shadow.hidden = !limit.shadow;
    allowed.textContent = number(limit.allowed);
    denied.textContent = number(limit.denied);
    extras.textContent = [
      limit.overrides && `${number(limit.overrides)} ${limit.overrides === 1 ? 'override' : 'overrides'}`,
      limit.shadow && `${number(limit.shadow_denied)} would be denied`,
      limit.local && `${number(limit.local)} without the store`,
      limit.errors && `${number(limit.errors)} not decided`,
    ].filter(Boolean).join(', ');
  }
}

function newRow(name) {
  const node = element('li', '', 'limit');
  node.dataset.limit = name;
  const [summary, extras, shadow] = [element('p'), element('p'), element('span', 'shadow mode', 'pill')];
  const about = element('div', '', 'about');
  const heading = element('h3', name);
  heading.append(shadow);
  about.append(heading, summary, extras);
  const canvas = Object.assign(document.createElement('canvas'), { role: 'img' });
  canvas.ariaLabel = `Requests of ${name} in each of the last seconds: allowed ones upwards, denied ones downwards`;
  const totals = element('dl', '', 'totals');
  const total = (kind, term) => {
    const [group, value] = [element('div', '', kind), element('dd', '0', term)];
    group.append(element('dt', term), value);
    totals.append(group);
    return value;
  };
  const row = { node, canvas, summary, extras, shadow, allowed: total('good', 'allowed'), denied: total('bad', 'denied') };
  node.append(about, canvas, totals);
  return row;
}

function showClients(clients) {
  // A button that has the focus stays where it is, unless the list has changed.
  const text = JSON.stringify(clients.map(({ limit, id }) => [limit, id]));
  const isNew = showClients.text !== text || $('clients').children.length !== clients.length;
  if (isNew) $('clients').replaceChildren(...clients.map(newClient));
  showClients.text = text;
  const most = clients[0]?.denials ?? 1;
  clients.forEach(({ denials, inherited, last_ms: last }, i) => {
    const [, count, when] = $('clients').children[i].children;
    count.firstChild.textContent = inherited ? `≤ ${number(denials)}` : number(denials);
    count.lastChild.style.width = `${(100 * denials) / most}%`;
    when.textContent = ago(last);
  });
  $('clients-hint').hidden = clients.length > 0;
}

function newClient({ limit, id }) {
  const row = element('tr');
  const client = element('td');
  const code = element('code', id);
  if ($('show-ids').checked) {
    const button = Object.assign(element('button'), { type: 'button', title: 'Look up this bucket' });
    button.append(code);
    button.addEventListener('click', () => {
      bucket.open(limit, id);
      $('bucket-title').scrollIntoView({ block: 'nearest', behavior: 'smooth' });
    });
    client.append(button);
  } else {
    client.append(code);
  }
  const count = element('td', '', 'number');
  count.append(element('span'), element('i', '', 'share'));
  client.append(element('p', limit, 'of'));
  row.append(client, count, element('td', '', 'number'));
  return row;
}

function showStore(store) {
  const [isShared, isDown] = [store.is_open !== null, store.is_open === true];
  $('store-tile').dataset.kind = isDown ? 'bad' : 'good';
  $('store-state').textContent = isDown ? 'down' : 'up';
  $('store-sub').textContent = isShared ? (isDown ? 'deciding without it' : 'shared by all servers') : 'in this process';
  $('store-kind').textContent = isShared ? 'shared by all servers' : 'in the memory of this process';
  $('outage').hidden = !isDown;
  const [first] = stores;
  const calls = store.ok - first.ok;
  const cap = store.max_buckets === null ? null : `at most ${number(store.max_buckets)} buckets`;
  showFacts($('store'), [
    ['circuit breaker', isShared ? (isDown ? 'open: the store is not asked' : 'closed: the store answers') : null],
    ['opened', isShared ? `${number(store.opened)} ${store.opened === 1 ? 'time' : 'times'}` : null],
    ['calls', isShared ? `${number(store.ok)} answered, ${number(store.failed)} failed` : null],
    ['mean duration', calls > 0 ? `${((store.ok_us - first.ok_us) / calls / 1000).toFixed(2)} ms` : null],
    ['decided without it', isShared ? number(store.fallback) : null],
    [isShared ? 'local buckets' : 'buckets', store.buckets === null ? null : number(store.buckets)],
    // Windows and tiers are among the buckets, but not under this cap: their budget is in bytes.
    ['room', cap],
    ['evicted', store.evictions === null ? null : number(store.evictions)],
  ]);
}

// --- Charts.

function draw() {
  if (!latest || $('main').hidden) return;
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(`--${name}`);
  for (const { name, seconds } of latest.limits) {
    drawSeconds(rows.get(name).canvas, seconds, {
      up: color('tier-0'), down: color('bad'), line: color('edge'), text: color('soft'), ground: color('well'),
    });
  }
}

// One bar for each second, the newest at the right: allowed requests above the line, denied ones below it.
function drawSeconds(canvas, seconds, colors) {
  const ratio = devicePixelRatio;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const context = canvas.getContext('2d');
  context.scale(ratio, ratio);
  const [up, down] = [0, 1].map((i) => Math.max(0, ...seconds.map((second) => second[i])));
  const room = height - 8;
  const scale = up + down ? room / (up + down) : 0;
  const zero = 4 + (up + down ? up * scale : room);
  const step = width / SECONDS;
  const bar = (i, count, color, y) => {
    context.fillStyle = color;
    context.fillRect(width - (seconds.length - i) * step, y, Math.max(step - 1, 1), count * scale);
  };
  seconds.forEach(([allowed, denied], i) => {
    bar(i, allowed, colors.up, zero - allowed * scale);
    bar(i, denied, colors.down, zero);
  });
  context.fillStyle = colors.line;
  context.fillRect(0, Math.round(zero), width, 1);
  const peak = Math.max(0, ...seconds.map(([allowed, denied]) => allowed + denied));
  if (peak) drawLabel(context, `peak ${number(peak)} per second`, colors);
}

function drawLabel(context, text, colors) {
  context.font = '11px system-ui, sans-serif';
  context.textBaseline = 'top';
  context.globalAlpha = 0.85;
  context.fillStyle = colors.ground;
  context.fillRect(4, 4, context.measureText(text).width + 8, 17);
  context.globalAlpha = 1;
  context.fillStyle = colors.text;
  context.fillText(text, 8, 7);
}

// --- What operators do.

$('gate').addEventListener('submit', (event) => {
  event.preventDefault();
  token = $('token').value;
  enter();
});
$('leave').addEventListener('click', () => leave());
$('pause').addEventListener('click', () => {
  isPaused = !isPaused;
  $('pause').ariaPressed = isPaused;
  refresh();
});
$('show-ids').addEventListener('change', () => {
  // No id stays on the page, even if the server does not answer.
  $('clients').replaceChildren();
  refresh();
});
document.addEventListener('visibilitychange', () => token !== null && !document.hidden && !isPaused && refresh());
addEventListener('resize', draw);
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);

bucket.start(call);
if (token !== null) enter();
else $('token').focus();
