#!/usr/bin/env node
import { fileURLToPath } from 'node:url';
import { launch } from '../../launch.js';

await launch('ingest', fileURLToPath(new URL('..', import.meta.url)));
