// Unpacks the browser into TMPDIR, which `executablePath` of its package does.
import chromium from '@sparticuz/chromium';

await chromium.executablePath();
