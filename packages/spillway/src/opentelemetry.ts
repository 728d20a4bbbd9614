export { openTelemetry, type TelemetryOptions } from './watch/opentelemetry.ts';
