// A program of its own: the package unpacks into the TMPDIR that its process was started with.
import chromium from '@sparticuz/chromium';

await chromium.executablePath();
