// Looks up one bucket, and resets it, with the routes of the app `inspect`.

import { $, duration, element, number, showFacts } from './words.js';

const SOURCES = {
  cache: 'this server, which remembers a denial',
  lease: 'this server, from its lease',
  local: 'this server alone: the store does not answer',
};

let call = null; // Sends a request with the token.
let found = null; // The path of the bucket that is shown.

export function start(send) {
  call = send;
}

// Fills in the form, and looks the bucket up.
export function open(limit, id) {
  $('limit').value = limit;
  $('id').value = id;
  return lookUp();
}

export function showLimits(names) {
  const shown = [...$('limit').options].map(({ value }) => value);
  if (shown.join() === names.join()) return;
  const chosen = $('limit').value;
  $('limit').replaceChildren(...names.map((name) => Object.assign(element('option', name), { value: name })));
  if (names.includes(chosen)) $('limit').value = chosen;
}

export function forget() {
  found = null;
  $('found').hidden = true;
  $('id').value = '';
  for (const id of ['found-key', 'facts', 'confirm', 'done']) $(id).textContent = '';
  fail(null);
}

async function lookUp() {
  const [limit, id] = [$('limit').value, $('id').value];
  ask(false);
  fail(null);
  $('done').textContent = '';
  // Browsers take these out of addresses, encoded or not.
  if (id === '.' || id === '..') {
    return fail(new Error(`a browser cannot send the id \`${id}\`: use \`curl --path-as-is\` with the route of \`inspect\``));
  }
  found = `inspect/buckets/${encodeURIComponent(limit)}/${encodeURIComponent(id)}`;
  return refresh(found);
}

// Shows the bucket as it is now. An error stays until the next look-up.
export function refreshShown() {
  if (found && !$('found').hidden) refresh(found);
}

async function refresh(path) {
  const attempt = (refresh.latest = {});
  const isLatest = () => path === found && attempt === refresh.latest;
  try {
    const bucket = await call('GET', path);
    if (isLatest()) show(bucket);
  } catch (error) {
    if (isLatest()) fail(error);
  }
}

function fail(error) {
  $('bucket-error').textContent = error ? error.message : '';
  $('bucket-error').hidden = !error;
  if (!error) return;
  $('found').hidden = true;
  // A look at the bucket that is still under way does not hide the error.
  refresh.latest = null;
}

function show(bucket) {
  fail(null);
  $('found').hidden = false;
  $('found-key').textContent = bucket.key;
  const wait = waitOf(bucket);
  const kind = wait === 0 ? 'good' : 'bad';
  $('found-state').dataset.kind = kind;
  $('found-state').textContent = wait === 0 ? 'would pass' : 'would be denied';
  const permits = bucket.values?.concurrent;
  const most = bucket.values?.burst ?? bucket.values?.limit ?? bucket.values?.quota ?? permits;
  const isMetered = most > 0 && bucket.remaining !== null;
  $('meter').hidden = !isMetered;
  if (isMetered) {
    $('meter').dataset.kind = kind;
    $('meter').ariaLabel = `${bucket.remaining} of ${most} left`;
    $('meter-fill').style.width = `${(100 * Math.min(bucket.remaining, most)) / most}%`;
  }
  const left = bucket.remaining === null ? null : number(bucket.remaining) + (isMetered ? ` of ${number(most)}` : '');
  showFacts($('facts'), [
    ['limit', `${bucket.limit}: ${bucket.summary}${bucket.shadow ? ', in shadow mode' : ''}`],
    ['left', left],
    ['next request', next(wait, permits)],
    ['full', bucket.reset_after_us ? `in ${duration(bucket.reset_after_us)}` : null],
    ['override', bucket.override && [bucket.override.id, bucket.override.comment].filter(Boolean).join(': ')],
    ['decided by', SOURCES[bucket.source]],
  ]);
}

// When the next request passes, if it does not now. Nobody knows when a permit comes back.
function next(wait, permits) {
  if (wait === 0) return null;
  if (wait < Infinity) return `passes in ${duration(wait)}`;
  return permits ? 'passes when a permit comes back' : 'never passes';
}

// How long until a request that costs 1 passes, in microseconds.
function waitOf({ passes, next_after_us: next }) {
  if (passes) return 0;
  return next ?? Infinity;
}

// Asks before a reset, since it cannot be undone.
function ask(asks) {
  $('reset').hidden = asks;
  $('confirm').hidden = !asks;
  $('cancel').hidden = !asks;
  $('confirm').textContent = `Reset ${$('found-key').textContent}`;
}

async function reset() {
  const path = found;
  ask(false);
  $('reset').focus();
  try {
    const { reset: isReset, key, reason } = await call('DELETE', path);
    if (path !== found) return;
    await refresh(path);
    if (path === found) $('done').textContent = isReset ? `Reset ${key}.` : `Nothing to reset: ${reason}.`;
  } catch (error) {
    if (path === found) fail(error);
  }
}

$('lookup').addEventListener('submit', (event) => {
  event.preventDefault();
  lookUp();
});
$('reset').addEventListener('click', () => {
  $('done').textContent = '';
  ask(true);
  $('cancel').focus();
});
$('cancel').addEventListener('click', () => {
  ask(false);
  $('reset').focus();
});
$('confirm').addEventListener('click', reset);
