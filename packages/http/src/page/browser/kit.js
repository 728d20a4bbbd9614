// The few things that the parts of the kit need beyond HTML and CSS. Every page works without it.

const root = document.documentElement;

/** Follows the machine's theme until it is switched, then remembers the choice. */
const themes = ['system', 'light', 'dark'];
let theme = 'system';
try {
  theme = localStorage.getItem('theme') ?? 'system';
} catch {
  // Storage is forbidden here: the machine's choice stays.
}

function showTheme() {
  if (theme === 'system') delete root.dataset.theme;
  else root.dataset.theme = theme;
  for (const button of document.querySelectorAll('[data-theme-switch]')) {
    button.textContent = `Theme: ${theme}`;
  }
}

function switchTheme() {
  theme = themes[(themes.indexOf(theme) + 1) % themes.length];
  try {
    localStorage.setItem('theme', theme);
  } catch {
    // The choice is shown, but not remembered.
  }
  showTheme();
}

async function copy(button) {
  const text = document.getElementById(button.dataset.copies)?.textContent ?? '';
  await navigator.clipboard?.writeText(text);
  button.textContent = 'Copied';
  setTimeout(() => {
    button.textContent = 'Copy';
  }, 1_500);
}

showTheme();

addEventListener('click', (event) => {
  const { target } = event;
  if (!(target instanceof Element)) return;
  if (target.closest('[data-theme-switch]')) switchTheme();
  const copier = target.closest('[data-copies]');
  if (copier) void copy(copier);
  const opener = target.closest('[data-opens]');
  const dialog = opener && document.getElementById(opener.dataset.opens);
  if (dialog instanceof HTMLDialogElement) {
    event.preventDefault();
    dialog.showModal();
  }
  const closer = target.closest('[data-closes]')?.closest('dialog');
  if (closer?.open) {
    event.preventDefault();
    closer.close();
  }
});

// "/" goes to the search field, as in the tools people know.
addEventListener('keydown', (event) => {
  const { target } = event;
  const isTyping = target instanceof Element && target.closest('input, textarea, select');
  if (event.key !== '/' || isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  const field = document.querySelector('input[type="search"]');
  if (field === null) return;
  event.preventDefault();
  field.focus();
});

/** Shows the point of a chart: `data-points` holds [x, text], from left to right, x in 0 to 100. */
function showPoint(chart, find) {
  const points = JSON.parse(chart.dataset.points);
  if (points.length === 0) return;
  const cursor = chart.querySelector('.cursor');
  const at = Math.max(0, Math.min(points.length - 1, find(points, chart.pointShown)));
  const [x, text] = points[at];
  chart.pointShown = at;
  cursor.setAttribute('x1', `${x}%`);
  cursor.setAttribute('x2', `${x}%`);
  cursor.classList.add('shown');
  chart.querySelector('output').textContent = text;
}

function hidePoint(chart) {
  chart.querySelector('.cursor').classList.remove('shown');
  chart.querySelector('output').textContent = '';
}

function chartOf({ target }) {
  return target instanceof Element ? target.closest('.plot')?.closest('.chart[data-points]') : null;
}

// One listener for all charts: a chart that a live change adds needs none of its own.
addEventListener('pointermove', (event) => {
  const chart = chartOf(event);
  if (!chart) return;
  const { left, width } = chart.querySelector('.plot').getBoundingClientRect();
  const x = ((event.clientX - left) / width) * 100;
  showPoint(chart, (points) => {
    const distances = points.map(([place]) => Math.abs(place - x));
    return distances.indexOf(Math.min(...distances));
  });
});

for (const type of ['pointerout', 'focusout']) {
  addEventListener(type, (event) => {
    const chart = chartOf(event);
    if (chart && !chart.querySelector('.plot').contains(event.relatedTarget)) hidePoint(chart);
  });
}

const steps = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10 };

addEventListener('keydown', (event) => {
  const chart = chartOf(event);
  const step = steps[event.key];
  if (!chart || step === undefined) return;
  event.preventDefault();
  showPoint(chart, (points, shown) => (shown ?? points.length - 1) + step);
});

/** Counts down to the moment at which an error page loads itself again. */
function countDown(element) {
  const seconds = Number(element.dataset.again);
  const startedAt = performance.now();
  const words = element.querySelector('.figures');
  const bar = element.querySelector('rect');
  const timer = setInterval(() => {
    const passed = (performance.now() - startedAt) / 1_000;
    words.textContent = passed < seconds ? `in ${Math.ceil(seconds - passed)} s` : 'now';
    bar.setAttribute('width', `${Math.min(100, (passed / seconds) * 100)}%`);
    if (passed < seconds) return;
    clearInterval(timer);
    location.replace(location.href);
  }, 250);
}

for (const element of document.querySelectorAll('[data-again]')) countDown(element);
