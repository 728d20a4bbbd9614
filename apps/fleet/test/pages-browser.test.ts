import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { inaccessible, openBrowser } from 'spillway-fixtures/browser';
import { logWorker } from '../src/world/manage.ts';
import { openBusyFleet, password } from './fixtures/busy-fleet.ts';
import { stats } from './fixtures/fleet-scene.ts';
import { type FleetSite, info } from './fixtures/fleet-site.ts';

const sri = 'A'.repeat(64);
const book = { total: 9, white: 9, black: 0, min_depth: 8, max_depth: 8, sri };

/** Counts tables that reach beyond the card that they are in. */
const tablesCut = `[...document.querySelectorAll('.card .table')].filter((table) => {
  const { right } = table.closest('.card').getBoundingClientRect();
  return table.getBoundingClientRect().right > right + 1;
}).length`;

/** Texts of folded tables that reach out of their cell or window; those that are cut may. */
const textOutside = `(() => {
  const found = [];
  for (const cell of document.querySelectorAll('.table.folds tbody :is(th, td)')) {
    const box = cell.getBoundingClientRect();
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const text = texts.currentNode;
      if (text.data.trim() === '' || text.parentElement.closest('.cut, .fold-away')) continue;
      const range = document.createRange();
      range.selectNodeContents(text);
      const { left, right } = range.getBoundingClientRect();
      const end = Math.min(box.right, innerWidth);
      if (left < box.left - 1 || right > end + 1) found.push(text.data.trim());
    }
  }
  return found;
})()`;

describe('the pages in a browser', () => {
  let site: FleetSite;
  let browser: Browser;

  before(async () => {
    site = await openBusyFleet();
    await site.fleet.files.books.store(new Map([['book.epd', book]]));
    browser = await openBrowser();
  });

  after(async () => {
    await browser.close();
    await site[Symbol.asyncDispose]();
  });

  const open = async (username?: string, secret = password): Promise<Page> => {
    const page = await browser.newPage({ baseURL: site.fleet.server.url });
    page.setDefaultTimeout(120_000);
    if (username === undefined) return page;
    await page.goto('/login');
    await page.fill('#username', username);
    await page.fill('#password', secret);
    await page.click('main button.main');
    await page.waitForURL('**/tests');
    return page;
  };

  /** A worker that wins, until its run has nothing left for it. */
  const play = async (id: string): Promise<void> => {
    const access = { password: 'secret', worker_info: info() };
    for (const run of site.fleet.primary.world.unfinished) {
      if (run.id !== id) run.record.approved = false;
    }
    for (let task = 0; task < 10; task += 1) {
      const { json } = await site.ask('request_task', access);
      if (json.run === undefined) return;
      const won = stats([0, 0, 0, json.run.my_task.num_games / 2, 0]);
      const body = { ...access, run_id: json.run._id, task_id: json.task_id, stats: won };
      await site.ask('update_task', body);
    }
  };

  it('lead from signing up to an accepted run, and stop another', async () => {
    const erin = await open();
    await erin.goto('/signup');
    await erin.fill('#username', 'erin');
    await erin.fill('#password', 'quiet river stones');
    await erin.fill('#password2', 'quiet river stones');
    await erin.fill('#email', 'erin@example.org');
    await erin.click('main button.main');
    await erin.getByText('erin waits for an approver').waitFor();

    const ada = await open('ada');
    await ada.goto('/user_management');
    await ada.click('a[href="/user/erin"]');
    await ada.click('text=Accept');
    await ada.getByText('erin was accepted.').waitFor();

    const user = await open('erin', 'quiet river stones');
    await user.goto('/tests/run?preset=PT');
    await user.fill('[name="test-branch"]', 'faster');
    await user.fill('[name="test-signature"]', '1234567');
    await user.fill('[name="base-signature"]', '7654321');
    await user.fill('[name="resolved_new"]', '1'.repeat(40));
    await user.fill('[name="resolved_base"]', 'oops');
    await user.fill('[name="num-games"]', '1000');
    await user.fill('[name="tc"]', '10+0.1');
    await user.click('text=Submit the run');
    await user.locator('#resolved_base-error').waitFor();
    assert.equal(await user.inputValue('[name="test-branch"]'), 'faster', 'what was typed stays');
    await user.fill('[name="resolved_base"]', '2'.repeat(40));
    await user.click('text=Submit the run');
    await user.getByText('Waits for an approver.').waitFor();
    const id = /view\/(\w+)/.exec(user.url())?.[1] ?? '';

    await ada.goto(`/tests/view/${id}`);
    await ada.click('text=Approve…');
    await ada.click('text=Approve the run');
    await ada.getByText('faster is approved.').waitFor();

    await play(id);
    // The page of the submitter was open all the time, and is not loaded again.
    await user.getByText('The change passed after 1,000 games.').waitFor();
    await user.locator('.state[data-state="accepted"]').first().waitFor();

    const other = [...site.fleet.primary.world.unfinished].find(
      ({ args }) => args.new_tag === 'razoring-depth-4',
    );
    await ada.goto(`/tests/view/${other?.id}`);
    await ada.click('text=Stop…');
    await ada.click('text=Stop the run');
    await ada.waitForURL('**/tests');
    assert.equal(other?.record.finished, true);
    for (const page of [erin, ada, user]) await page.close();
  });

  it('modify, stop, purge and delete a run, block a worker, and show it in a tab', async () => {
    for (const run of site.fleet.primary.world.unfinished) run.record.approved = false;
    const id = await site.run({ username: 'bob', new_tag: 'two-tabs' });
    const task = await site.task();
    const played = { ...stats([0, 2, 6, 2, 0]), crashes: 5 };
    assert.deepEqual(
      Object.keys((await site.ask('update_task', { ...task, stats: played })).json),
      ['task_alive', 'duration'],
    );
    const other = await open();
    await other.goto(`/tests/view/${id}`);
    const ada = await open('ada');
    /** Presses a button of the run's page, and confirms it. */
    const press = async (verb: string) => {
      await ada.goto(`/tests/view/${id}`);
      await ada.click(`text=${verb}…`);
      await ada.click(`text=${verb} the run`);
    };
    await ada.goto(`/tests/view/${id}`);
    await ada.click('text=Modify…');
    await ada.fill('dialog[open] [name="priority"]', '2');
    await ada.click('text=Modify the run');
    await ada.getByText('two-tabs was changed.').waitFor();
    await other.getByText('The priority is 2').waitFor();
    await press('Stop');
    await ada.waitForURL('**/tests');
    await other.getByText('Without a verdict, after 20 games.').waitFor();
    await press('Purge');
    await ada.getByText('two-tabs is purged.').waitFor();
    // Its games are to be played again.
    await other.getByText('Waits for a machine.').waitFor();
    await press('Stop');
    await ada.waitForURL('**/tests');
    await press('Delete');
    await ada.getByText('two-tabs has been deleted.').waitFor();
    await other.getByText('It is in no list any more.').waitFor();
    await ada.goto('/workers/tester-8cores-000000');
    await ada.fill('#message', 'It crashes');
    await ada.check('[name="blocked"]');
    await ada.click('main button.main');
    await ada.getByText('It crashes').waitFor();
    assert.ok(site.fleet.primary.world.blocked.has('tester-8cores-000000'));
    for (const page of [other, ada]) await page.close();
  });

  it('calculate while numbers are typed', async () => {
    const page = await open();
    await page.goto('/sprt_calc');
    const games = page.locator('#forecast tbody tr').first();
    const before = await games.innerText();
    await page.fill('[name="elo-1"]', '4');
    await page.waitForURL('**/sprt_calc?*elo-1=4*');
    assert.notEqual(await games.innerText(), before);
    await page.close();
  });

  it('are accessible, run no text as code, and fit their window', async () => {
    const { world } = site.fleet.primary;
    const [run] = world.unfinished;
    const [task] = world.active;
    assert.ok(run && task);
    // What people and workers may write, at its longest.
    const code = '"><img src=x onerror=window.wasRun=1><svg onload=window.wasRun=1>';
    Object.assign(run.args, { new_tag: `${code}${'x'.repeat(130)}`.replaceAll(' ', '/') });
    Object.assign(run.args, { info: `${code} ${'x'.repeat(9_000)}`, arch_filter: code });
    Object.assign(task.record.worker_info, { uname: `${code}${'x'.repeat(900)}` });
    world.blocked.set('bob-16cores-00000f', {
      message: `${code}${'x'.repeat(400)}`,
      last_updated: 0,
    });
    const message = `${code}${'x'.repeat(5_000)}`;
    await site.fleet.primary.change((fleet) => logWorker(fleet, info(), message));
    const paths = [
      ...['/tests', '/tests/finished', '/tests/run', '/tests/machines', '/actions', '/user'],
      ...['/contributors', '/user_management?group=all', '/nns', '/upload', '/sprt_calc'],
      ...['/workers/show', '/rate_limits', `/tests/view/${run?.id}`, `/tests/stats/${run?.id}`],
    ];
    const wrong: string[] = [];
    for (const [width, colorScheme] of [
      [1280, 'light'],
      [390, 'dark'],
    ] as const) {
      const page = await open('ada');
      await page.setViewportSize({ width, height: 900 });
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      // All pages are made of the same parts: on a phone the first ones stand for them.
      for (const path of width < 1000 ? paths.slice(0, 5).concat(paths.slice(-2)) : paths) {
        await page.goto(path);
        const isWide = await page.evaluate('document.documentElement.scrollWidth > innerWidth');
        if (isWide) wrong.push(`${path} scrolls sideways at ${width}`);
        const cut = width < 1000 ? 0 : Number(await page.evaluate(tablesCut));
        if (cut > 0) wrong.push(`${path} at ${width}: ${cut} tables are wider than their cards`);
        const outside = width < 1000 ? ((await page.evaluate(textOutside)) as string[]) : [];
        for (const text of outside) wrong.push(`${path} at ${width}: ${text} is not in its cell`);
        if (await page.evaluate('window.wasRun')) wrong.push(`${path}: text was run as code`);
        for (const finding of await inaccessible(page)) {
          wrong.push(`${path} at ${width}, ${colorScheme}: ${finding}`);
        }
      }
      await page.close();
    }
    assert.deepEqual(wrong, []);
  });
});
