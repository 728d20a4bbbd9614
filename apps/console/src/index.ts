export { type Console, type ConsoleOptions, openConsole } from './open.ts';
