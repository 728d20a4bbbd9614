export { type Console, type ConsoleOptions, openConsole, type Remote } from './open.ts';
