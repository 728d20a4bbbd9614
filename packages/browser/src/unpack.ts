// A program that unpacks the browser into TMPDIR, as its package does by itself.
import chromium from '@sparticuz/chromium';

await chromium.executablePath();
