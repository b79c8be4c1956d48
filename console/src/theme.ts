/** `system`: as the viewer's system has it. */
export type Theme = 'system' | 'light' | 'dark';

const NAME = 'statefold.theme';
const ORDER: readonly Theme[] = ['system', 'light', 'dark'];

export const chosenTheme = (): Theme => ORDER.find((theme) => theme === localStorage.getItem(NAME)) ?? 'system';

export function applyTheme(theme: Theme = chosenTheme()): void {
  localStorage.setItem(NAME, theme);
  if (theme === 'system') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = theme;
}

export const nextTheme = (theme: Theme): Theme => ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length] ?? 'system';
