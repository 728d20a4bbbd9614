import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { type Browser, chromium } from 'playwright-core';

const names = ['chromium-headless-shell', 'chromium'];

function findBrowser(): string {
  for (const name of names) {
    for (const folder of (process.env.PATH ?? '').split(delimiter)) {
      const path = join(folder, name);
      try {
        accessSync(path, constants.X_OK);
        return path;
      } catch {
        // Not here.
      }
    }
  }
  throw new Error(
    `no ${names.join(' or ')} on PATH; on Debian: apt-get install chromium-headless-shell`,
  );
}

/** A real browser without a window; closed when it is disposed. */
export function openBrowser(): Promise<Browser> {
  const args = ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'];
  return chromium.launch({ executablePath: findBrowser(), args });
}
