  sluice.axis @segments segments of @s1 capacity 12
  sluice.scale @words on @segments factor 1
