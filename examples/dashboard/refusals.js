// The last refusals: lists them, finds them by reference or client, and shows the buckets behind one then and now.

import * as bucket from './bucket.js';
import { $, duration, element, number, showFacts } from './words.js';

const REASONS = {
  over_limit: 'over the limit',
  blocked: 'blocked',
  too_costly: 'costs too much',
  listed: 'on a deny list',
  no_id: 'no id',
  unavailable: 'store away',
  misconfigured: 'misconfigured',
};

// What a reference looks like, as people write it.
const REFERENCE = /^[0-9a-z]{12}$/i;

let call = null; // Sends a request with the token.
let isFiltered = false; // Whether the list is that of one client.
let shown = ''; // The references in the list.

export function start(send) {
  call = send;
}

// Shows the last refusals, unless the list is that of one client.
export function showLatest(refusals) {
  if (isFiltered) return;
  $('refusals-hint').textContent = 'No request has been refused since the server started.';
  showRows(refusals);
}

// Lists the refusals of a client.
export async function openClient(id) {
  $('sought').value = id;
  await find();
  $('refusals-title').scrollIntoView({ block: 'nearest', behavior: 'smooth' });
}

export function forget() {
  isFiltered = false;
  showRows([]);
  close();
  $('sought').value = '';
  $('all-refusals').hidden = true;
  fail(null);
}

function showRows(refusals) {
  const text = refusals.map(({ reference }) => reference).join();
  // A button that has the focus stays where it is, unless the list has changed.
  if (text !== shown || $('refusals').children.length !== refusals.length) {
    $('refusals').replaceChildren(...refusals.map(newRow));
  }
  shown = text;
  $('refusals-hint').hidden = refusals.length > 0;
}

function newRow({ reference, at_us: at, reason, detail, path, charges }) {
  const row = element('tr');
  const first = element('td');
  const button = Object.assign(element('button'), { type: 'button', title: 'Show this refusal' });
  button.append(element('code', reference));
  button.addEventListener('click', () => open(reference));
  const limits = charges.map(({ limit }) => limit).join(', ');
  first.append(button, element('p', [limits, path].filter(Boolean).join(' on '), 'of'));
  const why = element('td', [REASONS[reason] ?? reason, detail].filter(Boolean).join(': '));
  row.append(first, why, element('td', new Date(at / 1000).toLocaleTimeString('en-GB'), 'number'));
  return row;
}

async function find() {
  const sought = $('sought').value.trim();
  fail(null);
  close();
  if (!sought) return all();
  const attempt = (find.latest = {});
  try {
    const isReference = REFERENCE.test(sought);
    const one = isReference ? await call('GET', `inspect/refusals/${sought}`).catch(() => null) : null;
    const found = one ? [one] : await call('GET', `inspect/refusals?client=${encodeURIComponent(sought)}`);
    if (attempt !== find.latest) return;
    isFiltered = true;
    $('all-refusals').hidden = false;
    $('refusals-hint').textContent = 'No refusal of this client, or with this reference, is kept.';
    showRows(found);
    if (one) show(one);
  } catch (error) {
    if (attempt === find.latest) fail(error);
  }
}

function all() {
  find.latest = null;
  isFiltered = false;
  $('sought').value = '';
  $('all-refusals').hidden = true;
  fail(null);
  close();
}

async function open(reference) {
  const attempt = (open.latest = {});
  try {
    const refusal = await call('GET', `inspect/refusals/${reference}`);
    if (attempt === open.latest) show(refusal);
  } catch (error) {
    if (attempt === open.latest) fail(error);
  }
}

function close() {
  open.latest = null;
  $('refusal').hidden = true;
  for (const id of ['refusal-id', 'refusal-reason', 'refusal-facts', 'refusal-charges']) $(id).textContent = '';
}

function fail(error) {
  $('refusal-error').textContent = error ? error.message : '';
  $('refusal-error').hidden = !error;
}

function show(refusal) {
  fail(null);
  $('refusal').hidden = false;
  $('refusal-id').textContent = refusal.reference;
  $('refusal-reason').textContent = REASONS[refusal.reason] ?? refusal.reason;
  showFacts($('refusal-facts'), [
    ['at', new Date(refusal.at_us / 1000).toISOString()],
    ['why', refusal.detail],
    ['route', refusal.path],
    ['told to wait', refusal.retry_after_us === null ? 'retrying is pointless' : duration(refusal.retry_after_us)],
  ]);
  $('refusal-charges').replaceChildren(...refusal.charges.flatMap(newCharge));
}

function newCharge({ limit, id, cost, summary, override: isOverride, then, now }) {
  const facts = element('dl', '', 'facts');
  showFacts(facts, [
    ['client', id ?? 'all requests without an id'],
    ['limit', summary && `${summary}${isOverride ? ', an override' : ''}`],
    ['cost', number(cost)],
    ['bucket then', state(then)],
    ['bucket now', now ? state(now) : id === null ? null : 'not shown: the id is a hash'],
  ]);
  const parts = [element('h3', limit), facts];
  if (now) {
    const button = Object.assign(element('button', 'Look up this bucket'), { type: 'button' });
    button.addEventListener('click', () => bucket.open(limit, id));
    const actions = element('div', '', 'actions');
    actions.append(button);
    parts.push(actions);
  }
  return parts;
}

// A bucket in words.
function state({ remaining, next_after_us: next, reset_after_us: full }) {
  if (remaining === null) return 'not known';
  return [
    `${number(remaining)} left`,
    next === 0 ? null : next === null ? 'nothing passes' : `passes in ${duration(next)}`,
    full ? `full in ${duration(full)}` : null,
  ].filter(Boolean).join(', ');
}

$('find').addEventListener('submit', (event) => {
  event.preventDefault();
  find();
});
$('all-refusals').addEventListener('click', all);
